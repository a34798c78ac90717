"""The firings of waits in the action topic: where the latest one of each subscription is, and reading it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import msgspec

from ..bus import Clients, Record, TopicPartition
from ..errors import UnknownVersion, UnreachableError
from ..log import at, log
from ..records.codec import UNREADABLE, require_known_version

TAKE = 500
TAKE_TIMEOUT_S = 0.5
STALL_S = 10.0
# At most this many records between two wanted firings are read and dropped. A longer gap is skipped with a
# new position, which costs about as much.
MOST_BETWEEN = 2000
KEPT_MS = 30 * 24 * 3600 * 1000  # the topic's retention (`kafka.topics`)


class FiringRef(NamedTuple):
    """A reference to a firing's record in the action topic. incarnation: "" if it does not matter."""

    incarnation: str
    source: TopicPartition
    offset: int
    timestamp_ms: int

    @property
    def place(self) -> str:
        return f"{self.source}@{self.offset}"


class _Head(msgspec.Struct):
    """The part of an action record that is read first."""

    incarnation: str


class LatestFirings:
    """References to the latest firing of each one-shot subscription: the firings would need too much memory.

    References older than KEPT_MS are dropped, as the topic drops their records.
    """

    def __init__(self) -> None:
        self._refs: dict[str, FiringRef] = {}  # nearly oldest first: partitions are read in parallel

    def follow(self, record: Record) -> FiringRef | None:
        """Process the next record of the topic. Returns its reference if a task may wait for its firing."""
        if record.fault:
            with at(*record.source, record.offset):
                log.error("%s is not delivered: %s", record, record.fault)
            return None
        subscription = (record.key or b"").decode("utf-8", "replace")
        if record.value is None:
            self._refs.pop(subscription, None)
            return None
        if "\0" in subscription:
            return None  # a durable subscription's firing; no task waits for it
        try:
            head = msgspec.json.decode(record.value, type=_Head)
        except UNREADABLE as e:
            later = unknown_version(record)
            with at(*record.source, record.offset):
                log.error(
                    "%s",
                    later or f"{record} holds no valid ActionRecord and is not delivered: {e}",
                )
            return None
        self._refs.pop(subscription, None)
        ref = FiringRef(head.incarnation, record.source, record.offset, record.timestamp_ms)
        self._refs[subscription] = ref
        while next(iter(self._refs.values())).timestamp_ms < record.timestamp_ms - KEPT_MS:
            del self._refs[next(iter(self._refs))]
        return ref

    def newest(self, subscription: str) -> FiringRef | None:
        """The reference to its latest firing, of any incarnation; None if there is none."""
        return self._refs.get(subscription)

    def forget(self, subscription: str, ref: FiringRef) -> None:
        """Drop a reference whose record is gone, so that a wait for it registers again."""
        if self._refs.get(subscription) == ref:
            del self._refs[subscription]


def unknown_version(record: Record) -> str | None:
    """What to do about a record of the action topic that another version wrote; None if it is damaged."""
    try:
        require_known_version("ActionRecord", record.value or b"", str(record))
    except UnknownVersion as e:
        return str(e)
    return None


def fetch(
    clients: Clients, refs: Collection[FiringRef], monotonic: Callable[[], float] = time.monotonic
) -> Iterator[tuple[FiringRef, bytes | None]]:
    """Yields (reference, record value) for each reference, in any order.

    The value is None if the record is gone: a later record of its key replaced it. Raises UnreachableError if
    nothing arrives for STALL_S from the partitions that it still needs.
    """
    wanted: dict[TopicPartition, list[FiringRef]] = {}
    for ref in sorted(refs, key=lambda ref: ref.offset, reverse=True):
        wanted.setdefault(ref.source, []).append(ref)
    reader = clients.reader()
    try:
        while wanted:
            reader.read({tp: of_partition[-1].offset for tp, of_partition in wanted.items()})
            reading = set(wanted)  # partitions whose next wanted record is near
            deadline = monotonic() + STALL_S
            while reading:
                arrived = False
                for item in reader.take(TAKE, TAKE_TIMEOUT_S):
                    # Partitions that are done stay assigned; only records of the others show progress.
                    arrived = arrived or item.source in reading
                    of_partition = wanted.get(item.source, [])
                    while of_partition and of_partition[-1].offset <= item.offset:
                        ref = of_partition.pop()
                        if isinstance(item, Record) and item.offset == ref.offset:
                            yield ref, item.value
                        else:
                            yield ref, None
                    if not of_partition:
                        wanted.pop(item.source, None)
                    if not of_partition or of_partition[-1].offset > item.offset + MOST_BETWEEN:
                        reading.discard(item.source)
                if arrived:
                    deadline = monotonic() + STALL_S
                elif monotonic() > deadline:
                    raise UnreachableError(f"The firings at {sorted(map(str, reading))} could not be read.")
    finally:
        reader.close()
