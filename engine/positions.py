"""Where the engines' group stands on each of its partitions, asked of the cluster and not of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .bus import Committed, Topic, TopicPartition
from .config import BusConfig
from .kafka.admin import Admin


@dataclass(frozen=True)
class Position:
    """A partition of the group. `low`: the first record there is; `end`: one past the last."""

    tp: TopicPartition
    committed: Committed | None
    low: int
    end: int
    topic: Topic

    @property
    def lag(self) -> int:
        """How many offsets are not worked through; 0 where nothing was ever committed."""
        return 0 if self.committed is None else max(0, self.end - self.committed.offset)

    @property
    def retention_used(self) -> float:
        """The lag as a share of what the topic holds: at 1 the next records removed are unread ones."""
        held = self.end - self.low
        return min(1.0, self.lag / held) if held > 0 else float(self.lag > 0)


def positions(admin: Admin, config: BusConfig, listed: Sequence[str]) -> list[Position]:
    """All partitions of the event topic, of the topics that the bus lists, and of the trigger topic.

    A topic that is not there has none. Raises UnreachableError.
    """
    found = admin.topics((config.topic("event"), *listed, config.topic("trigger")))
    topics = {name: topic for name, topic in found.items() if topic is not None}
    partitions = [
        TopicPartition(name, number) for name, topic in topics.items() for number in range(topic.partitions)
    ]
    # Before the ends: what is committed meanwhile must not count as beyond them.
    committed = admin.committed(partitions, stable=False) or {}
    low, end = admin.start_offsets(partitions), admin.end_offsets(partitions)
    return [Position(tp, committed.get(tp), low[tp], end[tp], topics[tp.topic]) for tp in partitions]
