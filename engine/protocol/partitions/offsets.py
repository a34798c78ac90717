"""Checks whether records are at the offsets that they claim.

Brokers assign an offset to each batch, but do not check the deltas by which its records claim offsets after
it (Apache Kafka 4.2.2, uncompressed batches). A record that claims a later offset than its own hides the
records between from a reader that believes it: the reader continues after the claimed offset.

The offsets of a partition jump only over control records, aborted records, and records that compaction or
retention removed. So a record that is not at the next offset is looked up: a reader that starts at its
offset, or at any offset of the jump, must find it first.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Final, NamedTuple

from ...bus import End, Reader, Record, TopicPartition
from ...errors import NotReadable, UnreachableError
from ..context import EngineContext

# Look-ups that find nothing wrong may take MOST_S of each IN_S: each takes milliseconds, and offsets jump all
# the time in compacted topics and those of transactional producers. When MOST_S is used up, a jump is looked
# up only if it is longer than each that was looked up in this partition.
MOST_S: Final = 0.5
IN_S: Final = 10.0
MOST_HIDDEN: Final = 100  # offsets: a longer jump is looked up in any case
TAKE: Final = 10
TAKE_S: Final = 0.5
END_S: Final = 1.0  # a replica that this reader uses may be behind the partition's leader
STALL_S: Final = 10.0


class Refusal(NamedTuple):
    """Why a record is refused, and the offset at which reading continues."""

    reason: str
    position: int


class OffsetChecks:
    """Checks records of source partitions whose offset is not the next one. `close` closes its reader.

    Methods raise NotReadable if the record's partition cannot be read.
    """

    def __init__(self, context: EngineContext) -> None:
        self._bus, self._monotonic = context.bus, context.monotonic
        self._reader: Reader | None = None
        self._usual: dict[TopicPartition, int] = {}  # the longest jump looked up, at most MOST_HIDDEN
        self._began, self._took = 0.0, 0.0  # when the present IN_S began, and seconds of look-ups in it

    def refusal(self, record: Record, position: int) -> Refusal | None:
        """Why this record cannot be at the offset that it claims; None if it is, or if MOST_S is used up.

        position: the next offset of its partition.
        """
        tp, offset = record.source, record.offset
        if offset < position:
            if self._first(tp, offset) == record:  # an earlier record with a false offset hid it
                return None
            return Refusal(_reason(record, "which lies before the records that were read"), position)
        began, jump = self._monotonic(), offset - position
        end = self._bus.fetched_end(tp)
        if offset >= end:  # a true offset is below the end, if that is known
            end = self._ask_end(tp)
        if offset < end:
            if jump <= self._usual.get(tp, 0) and self._used_up(began):
                return None
            other = self._other(record, position)
            if other is None:
                self._usual[tp] = max(min(jump, MOST_HIDDEN), self._usual.get(tp, 0))
                self._took += self._monotonic() - began
                return None
            if self._first(tp, position) != record:
                return None  # compaction or retention has removed it since it was fetched
            what = "where another record is" if other == offset else f"but another record is at {other}"
        else:
            what, other = f"but the partition ends at {end}", end
        at = self._true_offset(record, position, min(offset, other))
        return Refusal(_reason(record, f"{what}. Reading continues at offset {at + 1}"), at + 1)

    def is_next(self, record: Record, position: int) -> bool:
        """Whether a reader that starts at `position` finds this record first: none between was skipped."""
        return self._first(record.source, position) == record

    def _ask_end(self, tp: TopicPartition) -> int:
        try:
            return self._bus.stable_offsets([tp])[tp]
        except NotReadable:
            raise
        except UnreachableError as e:
            raise NotReadable(tp.topic, str(e)) from e

    def _used_up(self, now: float) -> bool:
        if now - self._began >= IN_S:
            self._began, self._took = now, 0.0
        return self._took >= MOST_S

    def _other(self, record: Record, position: int) -> int | None:
        """An offset of the jump, or the claimed one, where another record is; None if none is found.

        A record that is equal to this one may be at the claimed offset. So look at the jump's second and last
        offset too, and at the offset of a record that a reader returns after this one.
        """
        tp, offset = record.source, record.offset
        places = [offset, *sorted({position + 1, offset - 1} - {position, offset})]
        for place in places:
            first, second = self._look(tp, place)
            if first != record:
                return place
            following = second.offset if isinstance(second, Record) else offset
            if position < following < offset and following not in places:
                places.append(following)
        return None

    def _true_offset(self, record: Record, low: int, high: int) -> int:
        """The offset of the record's batch, at or after `low`: the last one from which it is found."""
        return last_true(lambda offset: self._first(record.source, offset) == record, low, high)

    def _first(self, tp: TopicPartition, offset: int) -> Record | End:
        return self._look(tp, offset)[0]

    def _look(self, tp: TopicPartition, offset: int) -> tuple[Record | End, Record | End | None]:
        """The first record that a reader gets from this offset on, and the next item, if that has arrived.

        The partition's end in place of the record, if none comes within END_S.
        """
        try:
            return self._read(tp, offset)
        except NotReadable:
            raise
        except UnreachableError as e:  # perhaps of this partition alone: the others continue
            self.close()  # after a fatal error its client would fail each time
            raise NotReadable(tp.topic, str(e)) from e

    def _read(self, tp: TopicPartition, offset: int) -> tuple[Record | End, Record | End | None]:
        if self._reader is None:
            self._reader = self._bus.reader(brief=True)
        self._reader.read({tp: offset})
        began, end = self._monotonic(), None
        try:
            while (waited := self._monotonic() - began) <= STALL_S:
                if end is not None and waited >= END_S:
                    return end, None
                items = [item for item in self._reader.take(TAKE, TAKE_S) if item.source == tp]
                for item, following in zip_longest(items, items[1:]):
                    if isinstance(item, Record):
                        return item, following
                    end = item
        finally:
            self._reader.read({})
        raise NotReadable(tp.topic, f"{tp} could not be read at offset {offset} within {STALL_S:.0f} s.")

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def last_true(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The last number in [low, high) for which `holds` is true; after a false one all must be false."""
    step = 1
    while low + step < high and holds(low + step):
        low, step = low + step, step * 2
    high = min(high, low + step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _reason(record: Record, what: str) -> str:
    return (
        f"its batch is malformed: the record claims offset {record.offset}, {what}. No Kafka client writes "
        "such a batch; find out who may write to the topic"
    )
