"""The topics that a follower reads: what they are now, and where it begins in each partition."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from ..bus import Topic, TopicPartition
from ..config import BusConfig
from ..errors import TopicsError
from ..kafka.admin import Admin
from .kafka_view import MOST_ACTIONS

_KINDS = ("subscription", "state", "action")


@dataclass(frozen=True)
class FollowedTopics:
    """ids: by topic; another id is another topic. starts: where to begin. ends: how far to read at first."""

    ids: Mapping[str, str]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]

    @classmethod
    def read(cls, config: BusConfig) -> FollowedTopics:
        """Asks the brokers. Raises as `topic_ids`."""
        with closing(Admin(config)) as admin:
            found = _described(config, admin)
            partitions = [
                TopicPartition(name, number)
                for name, topic in found.items()
                for number in range(topic.partitions)
            ]
            starts, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
        action = config.topic("action")
        most = MOST_ACTIONS // max(1, sum(tp.topic == action for tp in partitions))
        for tp, end in ends.items():
            if tp.topic == action:
                starts[tp] = max(starts[tp], end - most)
        return cls({name: topic.id for name, topic in found.items()}, starts, ends)


def topic_ids(config: BusConfig) -> dict[str, str]:
    """{topic: its id now}. Raises TopicsError if a topic is missing, UnreachableError without an answer."""
    with closing(Admin(config)) as admin:
        return {name: topic.id for name, topic in _described(config, admin).items()}


def _described(config: BusConfig, admin: Admin) -> dict[str, Topic]:
    found = admin.topics([config.topic(kind) for kind in _KINDS])
    missing = [name for name, topic in found.items() if topic is None]
    if missing:
        raise TopicsError(
            *(f"Topic {name!r} is missing, or this user may not describe it." for name in missing),
            f"If {config.name!r} is the right bus, run: {config.command('topics create')}",
        )
    return {name: topic for name, topic in found.items() if topic is not None}
