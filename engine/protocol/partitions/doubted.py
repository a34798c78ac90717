"""Partitions whose client may have skipped records, because a record claimed a later offset than its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...bus import Bus, Record, TopicPartition
from ..outputs import Outputs
from ..tasks.source_task import SourceTask
from .offsets import OffsetChecks

# After so many refused records a partition is fetched again: each costs a few look-ups.
MOST_REFUSED: Final = 20


class DoubtedPartitions:
    """Refuses records with false offsets, and fetches their partitions again from the true position.

    The client continues after the offset that a record claims, so it may have skipped records before that.
    """

    def __init__(self, bus: Bus, offsets: OffsetChecks) -> None:
        self._bus, self._offsets = bus, offsets
        self._refused: dict[TopicPartition, int] = {}  # how many records

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._refused

    def __bool__(self) -> bool:
        return bool(self._refused)

    def forget(self) -> None:
        """Forget all doubted partitions, because every partition is fetched again anyway."""
        self._refused.clear()

    def must_drop(self, source: SourceTask, record: Record) -> bool:
        """Whether to drop a record, because the client may have skipped others before it.

        All are read when the partition is fetched again.
        """
        refused = self._refused.get(source.tp)
        if refused is None:
            return False
        if refused < MOST_REFUSED and (
            record.offset < source.position or self._offsets.is_next(record, source.position)
        ):
            return False
        self._refused[source.tp] = MOST_REFUSED
        return True

    def refuse(self, source: SourceTask, record: Record, outputs: Outputs, now_ms: int) -> bool:
        """Send a record with a false offset to the dead-letter topic; False if its offset is true."""
        refusal = self._offsets.refusal(record, source.position)
        if refusal is None:
            return False
        source.refuse(record, refusal.reason, refusal.position, outputs, now_ms)
        self._refused[source.tp] = self._refused.get(source.tp, 0) + 1
        return True

    def fetch_again(self, sources: Mapping[TopicPartition, SourceTask]) -> bool:
        """Fetch the doubted partitions among these again; False if the bus must `start` all again instead."""
        doubted = [sources[tp] for tp in self._refused if tp in sources]
        self._refused.clear()
        return all(self._bus.seek(each.tp, each.position) for each in doubted)
