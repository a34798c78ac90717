"""Progress: which registrations have seen all source partitions, according to the committed metadata.

Timers wait for it, and for the ends of the partitions (docs/understand/engine/timers.md, step 3).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...bus import TopicPartition
from ...records import OffsetMetadata


@dataclass
class _Partition:
    """A late source partition: some registrations have not seen all of it yet. Times are monotonic."""

    applied: int
    applied_since: float  # when `applied` last moved, or the partition became late
    moved_since: float  # when a scan last moved, or the partition became late
    position: int = 0
    scans: list[tuple[int, int, int]] = field(default_factory=list)
    # {(start, position) of a scan: since when}
    scans_since: dict[tuple[int, int], float] = field(default_factory=dict)
    reported: bool = False

    def update(self, metadata: OffsetMetadata, position: int, now: float) -> None:
        # Identify a scan by its first registration: then it does not seem to move when others join it or
        # another scan begins.
        since = {(start, at): self.scans_since.get((start, at), now) for start, _, at in metadata.scans}
        if not self.scans_since.keys() <= since.keys():
            self.moved_since, self.reported = now, False
        if self.applied != metadata.applied:
            self.applied_since, self.reported = now, False
        self.applied, self.position, self.scans, self.scans_since = (
            metadata.applied,
            position,
            metadata.scans,
            since,
        )

    def blocks(self, offset: int) -> bool:
        return self.applied <= offset or any(start <= offset < end for start, end, _ in self.scans)

    def unmoved_since(self, offset: int) -> float:
        # Each move of a scan counts: scans take turns, and R waits for them if another has no room.
        since = [self.scans_since[start, at] for start, end, at in self.scans if start <= offset < end]
        if self.applied <= offset:
            since.append(self.applied_since)
        return max(self.moved_since, *since)


class Progress:
    """Compares what owners of source partitions commit over time. offset: that of a registration."""

    def __init__(self) -> None:
        self._late: dict[TopicPartition, _Partition] = {}
        self._until = 0

    def update(self, found: dict[TopicPartition, tuple[int, OffsetMetadata]], until: int, now: float) -> None:
        """found: what is committed for all partitions. until: this engine's registry position."""
        late: dict[TopicPartition, _Partition] = {}
        for tp, (position, metadata) in found.items():
            applied = metadata.applied
            if applied >= until and not metadata.scans:
                continue
            known = self._late.get(tp)
            if known is None:
                known = _Partition(applied, now, now)
            known.update(metadata, position, now)
            late[tp] = known
        self._late, self._until = late, until

    def ready(self, offset: int) -> bool:
        """Whether the registration has seen all partitions up to their committed positions."""
        return offset < self._until and not any(each.blocks(offset) for each in self._late.values())

    def standing_still(self, offset: int, before: float) -> list[TopicPartition]:
        """The partitions that the registration waits for; none if one has made progress after `before`."""
        blocking = {tp: each for tp, each in self._late.items() if each.blocks(offset)}
        if any(each.unmoved_since(offset) > before for each in blocking.values()):
            return []
        return list(blocking)

    def is_first_report(self, tp: TopicPartition) -> bool:
        """Whether this is the first call since the partition last made progress."""
        partition = self._late[tp]
        first, partition.reported = not partition.reported, True
        return first

    def missing(self, offset: int) -> str:
        """What the registration waits for; "" if that is not known before the next `update`."""
        for tp, each in self._late.items():
            if each.applied <= offset:
                return f"{tp}, whose owner has not applied registrations from {each.applied} on"
        for tp, each in self._late.items():
            for start, end, at in each.scans:
                if start <= offset < end:
                    return f"{tp}, where a scan has read up to {at} of {each.position}"
        return ""
