"""Resumes stopped partitions at an offset that an administrator chooses, and says what that skips or repeats.

The choice is written to the registry; the partition's owner then continues at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from ..bus import TopicPartition
from ..config import BusConfig
from ..errors import TopicsError
from ..kafka.admin import Admin
from ..kafka.positions import Position, positions
from ..kafka.topics import read_registry, write_registry
from ..protocol.partitions.listed_topics import topic_not_read, why_unreadable
from ..protocol.partitions.missing_records import inspect_commit
from ..records import ResumeRecord, encode_json, registry_key
from ..registry.lazy import LazyRegistry


@dataclass(frozen=True)
class Resumption:
    """Where a stopped partition is to continue. `write` makes it effective.

    reason: why it stopped. committed: the offset up to which it was read, None if unknown. low, high: its
    first offset, and one past its last. offset: where it continues. known: whether the committed metadata
    show which registrations it has applied. behind: how many registrations may still look back to skipped
    records. matches: whether it is a trigger partition, whose records are matches.
    """

    partition: TopicPartition
    topic_id: str
    reason: str
    committed: int | None
    low: int
    offset: int
    high: int
    version: int
    known: bool = True
    behind: int = 0
    matches: bool = False

    @property
    def consequence(self) -> str:
        """What is skipped, and what is read again."""
        if self.committed is not None and self.offset < self.committed:
            return (
                f"Records from {self.offset} on are read again; each condition ignores those that it has "
                "already processed."
            )
        first = self.low if self.committed is None else max(self.low, self.committed)
        sentences = []
        if self.committed is not None and self.committed < self.low:
            sentences.append(f"Records {self.committed} to {self.low - 1} are lost.")
        if first < self.offset:
            read = ", whether they were read before or not" if self.committed is None else ""
            sentences.append(
                f"Records {first} to {self.offset - 1} ({self.offset - first}) are skipped{read}."
            )
            sentences += self._looking_back()
        elif self.committed is None:
            sentences.append(
                "All existing records are read; each condition ignores those that it has already processed."
            )
        else:
            sentences.append("No existing record is skipped.")
        return " ".join(sentences)

    def _looking_back(self) -> list[str]:
        if self.matches:
            return []
        if not self.known:
            return ["Waits that are already registered do not look back to them either; later ones do."]
        if self.behind:
            return [f"Registrations that are new to the partition may look back to them: {self.behind}."]
        return []


def write(config: BusConfig, resumptions: Iterable[Resumption]) -> None:
    """Write the resumptions to the registry; the partitions' owners then continue at once."""
    write_registry(
        config,
        {
            registry_key("resume", *each.partition): encode_json(
                ResumeRecord(v=each.version, topic_id=each.topic_id, offset=each.offset, end=each.high)
            )
            for each in resumptions
        },
    )


def resumption(config: BusConfig, topic: str, partition: int, start: str) -> Resumption:
    """What `start` ("start", "end" or an offset) would mean for a stopped partition.

    Raises TopicsError if the engines do not read the partition, if it is not stopped (the resumption would
    take effect whenever it stops later), or if it does not have the offset.
    """
    registry, found = _read_positions(config, topic)
    tp = TopicPartition(topic, partition)
    position = next((each for each in found if each.tp == tp), None)
    if position is None:
        count = sum(each.tp.topic == topic for each in found)
        raise TopicsError(f"Topic {topic!r} has no partition {partition}, only 0 to {count - 1}.")
    stopped = _resumption(config, registry, position, start)
    if stopped is None:
        committed = position.committed
        where = "has not been read yet" if committed is None else f"is read from offset {committed.offset}"
        raise TopicsError(f"{tp} is not stopped: it {where}. There is nothing to resume.")
    return stopped


def resumptions(config: BusConfig, start: str, topic: str | None = None) -> list[Resumption]:
    """What `start` ("start" or "end") would mean for each stopped partition, of one topic or of all.

    Raises TopicsError if the engines do not read the topic, or for an offset: partitions have different ones.
    """
    if start not in ("start", "end"):
        raise TopicsError(f"--from {start!r}: for several partitions, use start or end.")
    registry, found = _read_positions(config, topic)
    stopped = [_resumption(config, registry, each, start) for each in found if topic in (None, each.tp.topic)]
    return [each for each in stopped if each is not None]


def _read_positions(config: BusConfig, topic: str | None) -> tuple[LazyRegistry, list[Position]]:
    """The registry, and the positions of the group's partitions. Raises TopicsError for another `topic`."""
    registry = read_registry(config)
    if registry.bus is None:
        raise TopicsError(f"Bus {config.name!r} has no bus record. Run: {config.command('topics create')}")
    shared = (config.topic("event"), config.topic("trigger"), *registry.bus.topics)
    if topic is not None and topic not in shared:
        raise TopicsError(
            f"Bus {config.name!r} does not read {topic!r}; its engines share {', '.join(shared)}."
        )
    with closing(Admin(config)) as admin:
        found = positions(admin, config, registry.bus.topics)
        if topic is not None and not any(each.tp.topic == topic for each in found):
            if topic in registry.bus.topics:
                reason = why_unreadable(config, topic, admin.topics([topic], others=[topic])[topic])
                raise TopicsError(topic_not_read(topic, reason or "the read failed. Try again."))
            raise TopicsError(f"Topic {topic!r} does not exist.")
    return registry, found


def _resumption(config: BusConfig, registry: LazyRegistry, at: Position, start: str) -> Resumption | None:
    """What `start` would mean for the partition; None if it is not stopped."""
    tp, committed, topic_id = at.tp, at.committed, at.topic.id
    known = inspect_commit(
        committed,
        topic_id,
        at.low,
        at.end,
        in_use=tp in registry.sources,
        listed=tp.topic not in (config.topic("event"), config.topic("trigger")),
        registry_end=at.registry_end,
    )
    if known.lost is None:
        return None
    # If the topic was created again, earlier offsets mean nothing.
    same = known.metadata.topic_id in ("", topic_id)
    applied = known.metadata.applied if same else 0
    later = [(applied, registry.position), *((a, b) for a, b, _ in (known.metadata.scans if same else ()))]
    behind = sum(begin <= offset < end for begin, end in later for offset in registry.listed)
    return Resumption(
        partition=tp,
        topic_id=topic_id,
        reason=known.lost,
        committed=committed.offset if committed and same else None,
        low=at.low,
        offset=_offset(tp, start, at.low, at.end),
        high=at.end,
        version=registry.version,
        known=applied > 0,
        behind=behind,
        matches=tp.topic == config.topic("trigger"),
    )


def _offset(tp: TopicPartition, start: str, low: int, high: int) -> int:
    if start in ("start", "end"):
        return low if start == "start" else high
    if not start.isascii() or not start.isdecimal():
        raise TopicsError(f"--from {start!r}: use start, end or an offset.")
    if not low <= int(start) <= high:
        raise TopicsError(f"{tp} has no offset {start}: use one from {low} to {high}.")
    return int(start)
