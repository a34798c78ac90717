"""The offsets and lag of the engines' group on each partition, read from the cluster without an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..bus import Committed, Topic, TopicPartition
from ..config import BusConfig
from .admin import Admin


@dataclass(frozen=True)
class Position:
    """A partition that the group reads. `low`: the first record's offset; `end`: one past the last record.

    listed: whether the partition belongs to a listed topic. Those are first read from their current end.
    registry_end: that of the registry, after the offset was committed; None if it is not known.
    """

    tp: TopicPartition
    committed: Committed | None
    low: int
    end: int
    topic: Topic
    listed: bool = False
    registry_end: int | None = None

    @property
    def lag(self) -> int | None:
        """How many offsets are unprocessed. All of them if the committed offset is missing or past the end.

        None for a listed topic without a committed offset: the registry says whether it was read before.
        """
        if self.committed is None:
            return None if self.listed else self.size
        unread = self.end - self.committed.offset
        return unread if unread >= 0 else self.size

    @property
    def size(self) -> int:
        """How many offsets the partition has."""
        return self.end - self.low

    @property
    def retention_used(self) -> float:
        """The lag as a share of what the partition holds. At 1, retention removes unread records next.

        0 without a committed offset: the partition is new, or stopped, which is reported elsewhere.
        """
        if self.committed is None:
            return 0.0
        unread = max(0, self.end - self.committed.offset)
        return min(1.0, unread / self.size) if self.size > 0 else float(unread > 0)


def positions(admin: Admin, config: BusConfig, listed: Sequence[str]) -> list[Position]:
    """The positions of all partitions of the event topic, the listed topics and the trigger topic.

    Leaves out missing topics, and listed topics that this client may not describe or that have a partition
    without a leader. Raises UnreachableError.
    """
    found = admin.topics((config.topic("event"), *listed, config.topic("trigger")), others=listed)
    topics = {name: topic for name, topic in found.items() if topic is not None and topic.has_offsets}
    partitions = [
        TopicPartition(name, number) for name, topic in topics.items() for number in range(topic.partitions)
    ]
    # Before the ends: an offset committed in between must not look as if it were past the end.
    committed = admin.committed(partitions, stable=False) or {}
    registry = TopicPartition(config.topic("subscription"), 0)
    low, end = admin.start_offsets(partitions), admin.end_offsets([*partitions, registry])
    return [
        Position(tp, committed.get(tp), low[tp], end[tp], topics[tp.topic], tp.topic in listed, end[registry])
        for tp in partitions
    ]
