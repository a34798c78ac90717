"""Progress: which registrations have seen all of the source partitions, by the committed metadata.

Timers wait for it, beside the ends of the partitions (docs/understand/engine/timers.md, step 3).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...bus import TopicPartition
from ...records import OffsetMetadata


@dataclass
class _Partition:
    """A source partition that some registrations have not fully seen. Times are monotonic."""

    applied: int  # R
    applied_since: float  # when it moved last, or the partition became late
    moved_since: float  # the same for its scans
    position: int = 0
    scans: list[tuple[int, int, int]] = field(default_factory=list)
    stands: dict[tuple[int, int], float] = field(
        default_factory=dict
    )  # scans, by start and place, since when
    reported: bool = False

    def look(self, metadata: OffsetMetadata, position: int, now: float) -> None:
        # Scans are identified by their first registration: a scan has not moved when others join it, or when
        # another one begins beside it.
        stands = {(start, at): self.stands.get((start, at), now) for start, _, at in metadata.g}
        if not self.stands.keys() <= stands.keys():
            self.moved_since, self.reported = now, False
        if self.applied != metadata.R:
            self.applied_since, self.reported = now, False
        self.applied, self.position, self.scans, self.stands = metadata.R, position, metadata.g, stands

    def blocks(self, place: int) -> bool:
        return self.applied <= place or any(start <= place < end for start, end, _ in self.scans)

    def stands_since(self, place: int) -> float:
        # Scans are read in turns, and R waits for running scans if there is no room for another one.
        since = [self.stands[start, at] for start, end, at in self.scans if start <= place < end]
        if self.applied <= place:
            since.append(self.applied_since)
        return max(self.moved_since, *since)


class Progress:
    """Compares what owners of source partitions committed, look by look. place: an offset of the registry."""

    def __init__(self) -> None:
        self._late: dict[TopicPartition, _Partition] = {}
        self._until = 0

    def look(self, found: dict[TopicPartition, tuple[int, OffsetMetadata]], until: int, now: float) -> None:
        """found: position and metadata of all partitions. until: how far the registry is read here."""
        late: dict[TopicPartition, _Partition] = {}
        for tp, (position, metadata) in found.items():
            applied = metadata.R
            if applied >= until and not metadata.g:
                continue
            known = self._late.get(tp)
            if known is None:
                known = _Partition(applied, now, now)
            known.look(metadata, position, now)
            late[tp] = known
        self._late, self._until = late, until

    def ready(self, place: int) -> bool:
        """Whether the registration at this registry offset has seen all partitions up to their positions."""
        return place < self._until and not any(each.blocks(place) for each in self._late.values())

    def standing_still(self, place: int, before: float) -> list[TopicPartition]:
        """The partitions that this registration waits for, if none has made progress after `before`."""
        blocking = {tp: each for tp, each in self._late.items() if each.blocks(place)}
        if any(each.stands_since(place) > before for each in blocking.values()):
            return []
        return list(blocking)

    def is_first_report(self, tp: TopicPartition) -> bool:
        """Whether this is the first call since the partition stood still."""
        partition = self._late[tp]
        first, partition.reported = not partition.reported, True
        return first

    def missing(self, place: int) -> str:
        """What this registration waits for; "" if only the next look can tell."""
        for tp, each in self._late.items():
            if each.applied <= place:
                return f"{tp}, whose owner has not applied registrations from {each.applied} on"
        for tp, each in self._late.items():
            for start, end, at in each.scans:
                if start <= place < end:
                    return f"{tp}, where a scan has read up to {at} of {each.position}"
        return ""
