"""Where the engines' group stands on each of its partitions, asked of the cluster and not of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..bus import Committed, Topic, TopicPartition
from ..config import BusConfig
from .admin import Admin


@dataclass(frozen=True)
class Position:
    """A partition of the group. `low`: the first record there is; `end`: one past the last.

    listed: whether it is of a topic of others, which is read from its present end when it is read first.
    """

    tp: TopicPartition
    committed: Committed | None
    low: int
    end: int
    topic: Topic
    listed: bool = False

    @property
    def lag(self) -> int | None:
        """How many offsets are not worked through: all there are where the group has no offset, or one beyond

        the end. None where it has none of a listed topic: whether it was read before, the registry tells.
        """
        if self.committed is None:
            return None if self.listed else self.held
        unread = self.end - self.committed.offset
        return unread if unread >= 0 else self.held

    @property
    def held(self) -> int:
        """How many offsets there are."""
        return self.end - self.low

    @property
    def retention_used(self) -> float:
        """The lag as a share of what the topic holds: at 1 the next records removed are unread ones.

        0 without a committed offset: such a partition is new, or stopped, which is told otherwise.
        """
        if self.committed is None:
            return 0.0
        unread = max(0, self.end - self.committed.offset)
        return min(1.0, unread / self.held) if self.held > 0 else float(unread > 0)


def positions(admin: Admin, config: BusConfig, listed: Sequence[str]) -> list[Position]:
    """All partitions of the event topic, of the topics that the bus lists, and of the trigger topic.

    A topic that is not there has none, nor has a listed one that may not be described or that has a partition
    without a leader. Raises UnreachableError.
    """
    found = admin.topics((config.topic("event"), *listed, config.topic("trigger")), others=listed)
    topics = {name: topic for name, topic in found.items() if topic is not None and topic.has_offsets}
    partitions = [
        TopicPartition(name, number) for name, topic in topics.items() for number in range(topic.partitions)
    ]
    # Before the ends: what is committed meanwhile must not count as beyond them.
    committed = admin.committed(partitions, stable=False) or {}
    low, end = admin.start_offsets(partitions), admin.end_offsets(partitions)
    return [
        Position(tp, committed.get(tp), low[tp], end[tp], topics[tp.topic], tp.topic in listed)
        for tp in partitions
    ]
