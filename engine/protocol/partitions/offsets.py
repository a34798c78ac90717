"""Checks whether records are at the offsets that they claim.

Brokers assign an offset to each batch, but do not check the deltas by which its records claim offsets behind
it (Apache Kafka 4.2.2, uncompressed batches). A record that claims a later offset than its own hides the
records between from a reader that believes it: the reader continues behind the claimed offset.

The offsets of a partition jump only over control records, aborted records, and records that compaction or
retention removed. So a record that is not at the next offset is looked up by its own offset: a reader that
starts there must find it first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ...bus import End, Reader, Record, TopicPartition
from ...errors import UnreachableError
from ..context import EngineContext

# Look-ups that find nothing wrong may take this share of the time: each takes milliseconds. Topics of
# transactional producers, and compacted topics, jump all the time; their other jumps are not looked up.
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
    """Checks records of source partitions whose offset is not the next one. `close` closes its reader."""

    def __init__(self, context: EngineContext) -> None:
        self._bus, self._monotonic = context.bus, context.monotonic
        self._reader: Reader | None = None
        self._ends: dict[TopicPartition, int] = {}  # stable ends as last queried; they only grow
        self._began, self._took = 0.0, 0.0  # of the present IN_S

    def refusal(self, record: Record, position: int) -> Refusal | None:
        """Why this record cannot be at its offset; None if it is, or if MOST_S is used up.

        position: the next offset of its partition. Raises UnreachableError if the partition cannot be read.
        """
        tp, offset = record.source, record.offset
        if offset < position:
            if self._is_there(record):  # an earlier record claimed a later offset, and was not looked up
                return None
            return Refusal(_reason(record, "which lies before the records that were read"), position)
        if offset >= self._ends.get(tp, 0):
            self._ends[tp] = self._bus.stable_offsets([tp])[tp]
        end = self._ends[tp]
        if offset < end:
            if offset - position <= MOST_HIDDEN and self._used_up():
                return None
            began = self._monotonic()
            if self._is_there(record):
                self._took += self._monotonic() - began
                return None
            if self._first(tp, position) != record:
                return None  # compaction or retention has removed it since it was fetched
            what = "where another record is"
        else:
            what = f"but the partition ends at {end}"
        after = self._place(record, position, min(offset, end)) + 1
        return Refusal(_reason(record, f"{what}. Reading continues at offset {after}"), after)

    def _used_up(self) -> bool:
        now = self._monotonic()
        if now - self._began >= IN_S:
            self._began, self._took = now, 0.0
        return self._took >= MOST_S

    def _is_there(self, record: Record) -> bool:
        return self._first(record.source, record.offset) == record

    def _place(self, record: Record, low: int, high: int) -> int:
        """The offset of the record's batch, at or after `low`: the last one from which it is found."""
        return last_true(lambda offset: self._first(record.source, offset) == record, low, high)

    def _first(self, tp: TopicPartition, offset: int) -> Record | End:
        """What a reader finds that starts at this offset; the end if there is no record within END_S."""
        if self._reader is None:
            self._reader = self._bus.reader(brief=True)
        self._reader.read({tp: offset})
        began, end = self._monotonic(), None
        try:
            while (waited := self._monotonic() - began) <= STALL_S:
                if end is not None and waited >= END_S:
                    return end
                for item in self._reader.take(TAKE, TAKE_S):
                    if item.source == tp and isinstance(item, Record):
                        return item
                    if item.source == tp:
                        end = item
        finally:
            self._reader.read({})
        raise UnreachableError(f"{tp} could not be read at offset {offset} within {STALL_S:.0f} s.")

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


def last_true(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The last number in [low, high) for which `holds` is true; behind a false one all must be false."""
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
