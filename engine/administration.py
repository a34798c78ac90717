"""What an administrator changes while engines run: sources, where a partition goes on, the format.

All of it is written to the registry, which every engine follows; nothing is restarted. Two administrators at
the same moment: the later one's bus record holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import msgspec

from .bus import Topic, TopicPartition
from .config import KINDS, BusConfig
from .errors import TopicsError
from .kafka.admin import Admin
from .kafka.clients import ClientErrors
from .kafka.topics import read_registry, topic_ids, write_bus_record, write_registry
from .protocol.lost import look_at
from .protocol.registry import Registry
from .records import VERSION, BusRecord, ResumeRecord, encode_json, place_key


@dataclass(frozen=True)
class Source:
    """A topic that the bus reads; `partitions` None: it is listed, and not there."""

    topic: str
    partitions: int | None
    listed: bool  # False: the bus's own event topic


@dataclass(frozen=True)
class Resumption:
    """How a partition that stopped is to go on. `write` makes it so.

    reason: why it stopped. committed: up to where it was read, None where that is not known. low, offset,
    high: the first record there is, the one to go on with, the next one to come.
    """

    partition: TopicPartition
    topic_id: str
    reason: str
    committed: int | None
    low: int
    offset: int
    high: int
    format: int

    @property
    def consequence(self) -> str:
        """What is skipped, and what is read again."""
        if self.committed is None:
            skipped = self.offset - self.low
            if skipped:
                return f"Records {self.low} to {self.offset - 1} ({skipped}) are skipped, read before or not."
            return "All records there are will be read, those that were read before again."
        if self.offset < self.committed:
            return (
                f"Records from {self.offset} on are read again; each condition leaves out those that it has "
                "judged."
            )
        told = []
        if self.committed < self.low:
            told.append(f"Records {self.committed} to {self.low - 1} are lost.")
        first = max(self.committed, self.low)
        if first < self.offset:
            told.append(f"Records {first} to {self.offset - 1} ({self.offset - first}) are skipped.")
        else:
            told.append("Nothing that is there is skipped.")
        return " ".join(told)

    def write(self, config: BusConfig) -> None:
        """Tell the engines; the partition's owner goes on at once."""
        record = ResumeRecord(v=self.format, topic_id=self.topic_id, offset=self.offset)
        write_registry(config, place_key("resume", *self.partition), encode_json(record))


def sources(config: BusConfig) -> list[Source]:
    """The topics that the bus reads, its own event topic first."""
    record = _bus_record(config, read_registry(config))
    own = config.topic("event")
    with _admin(config) as admin:
        found = admin.topics([own, *record.topics])
    return [
        Source(name, None if (topic := found[name]) is None else topic.partitions, name != own)
        for name in (own, *record.topics)
    ]


def add_topics(config: BusConfig, names: Sequence[str]) -> list[str]:
    """List topics as sources of the bus; gives those that were not listed before.

    TopicsError, and nothing is changed, for one that is not there or is the bus's own, and on a bus of
    format 1.
    """
    record = _bus_record(config, read_registry(config))
    problems = [f"Topic {name!r} is the bus's own." for name in names if name in _own(config)]
    if record.format < 2:
        problems.append(
            f"Bus {config.name!r} has format {record.format}, whose engines read no other topics: when all "
            "of them run this version, say: airflow interlock topics upgrade"
        )
    others = [name for name in dict.fromkeys(names) if name not in _own(config)]
    with _admin(config) as admin:
        found = admin.topics(others)
    problems += [f"Topic {name!r} is not there." for name in others if found[name] is None]
    if problems:
        raise TopicsError((*problems, "Nothing was changed."))
    new = [name for name in others if name not in record.topics]
    if new:
        write_bus_record(config, msgspec.structs.replace(record, topics=(*record.topics, *new)))
    return new


def remove_topics(config: BusConfig, names: Sequence[str]) -> None:
    """Read these topics no more. TopicsError, and nothing is changed, for one that is not listed."""
    record = _bus_record(config, read_registry(config))
    problems = [
        f"Topic {name!r} is the bus's own." if name in _own(config) else f"Topic {name!r} is not listed."
        for name in names
        if name not in record.topics
    ]
    if problems:
        listed = ", ".join(record.topics) or "no other topic"
        raise TopicsError((*problems, f"Bus {config.name!r} lists {listed}. Nothing was changed."))
    left = tuple(name for name in record.topics if name not in names)
    write_bus_record(config, msgspec.structs.replace(record, topics=left))


def resumption(config: BusConfig, topic: str, partition: int, start: str) -> Resumption:
    """What `start` ("start", "end" or an offset) would mean for a partition that stopped.

    TopicsError for a partition that the engines do not share, for one that did not stop (what is said of it
    would take effect when it stops some day), and for an offset that is not there.
    """
    registry = read_registry(config)
    record = _bus_record(config, registry)
    tp = TopicPartition(topic, partition)
    shared = (config.topic("event"), config.topic("trigger"), *record.topics)
    if topic not in shared:
        raise TopicsError(
            (f"Bus {config.name!r} does not read {topic!r}; its engines share {', '.join(shared)}.",)
        )
    with _admin(config) as admin:
        found = _topic_of(admin, tp)
        low, high = admin.start_offsets([tp])[tp], admin.end_offsets([tp])[tp]
        committed = (admin.committed([tp], stable=False) or {}).get(tp)
    known = look_at(committed, found.id, low, high, in_use=tp in registry.sources)
    if known.lost is None:
        where = "has not been read yet" if committed is None else f"goes on at offset {committed.offset}"
        raise TopicsError((f"{tp} did not stop: it {where}. There is nothing to resume.",))
    return Resumption(
        partition=tp,
        topic_id=found.id,
        reason=known.lost,
        # Offsets of a topic that was made again have nothing to do with those of before.
        committed=committed.offset if committed and known.metadata.t in ("", found.id) else None,
        low=low,
        offset=_offset(tp, start, low, high),
        high=high,
        format=min(record.format, VERSION),
    )


def _topic_of(admin: Admin, tp: TopicPartition) -> Topic:
    found = admin.topics([tp.topic])[tp.topic]
    if found is None:
        raise TopicsError((f"Topic {tp.topic!r} is not there.",))
    if not 0 <= tp.partition < found.partitions:
        raise TopicsError(
            (f"Topic {tp.topic!r} has partitions 0 to {found.partitions - 1}, no {tp.partition}.",)
        )
    return found


def _offset(tp: TopicPartition, start: str, low: int, high: int) -> int:
    if start in ("start", "end"):
        return low if start == "start" else high
    if not start.isascii() or not start.isdecimal():
        raise TopicsError((f"--from {start!r}: give start, end or an offset.",))
    if not low <= int(start) <= high:
        raise TopicsError((f"{tp} has no offset {start}: give one from {low} to {high}.",))
    return int(start)


@dataclass(frozen=True)
class Upgrade:
    """From which format to which; `engines`: {transactional id: host} of the group's members now."""

    record: BusRecord
    format: int
    engines: dict[str, str]

    def write(self, config: BusConfig) -> None:
        """From now on writers write the new format. Engines that do not know it stop, and say so."""
        ids = self.record.topic_ids or topic_ids(config)  # format 1 did not note them
        write_bus_record(config, msgspec.structs.replace(self.record, format=self.format, topic_ids=ids))


def upgrade(config: BusConfig) -> Upgrade:
    """What an upgrade would change; `format` equals the record's where there is nothing to do."""
    record = _bus_record(config, read_registry(config))
    with _admin(config) as admin:
        engines = {member.name: member.host for member in admin.group_members()}
    return Upgrade(record, max(VERSION, record.format), engines)


def _bus_record(config: BusConfig, registry: Registry) -> BusRecord:
    if registry.bus is None:
        raise TopicsError((f"Bus {config.name!r} has no bus record. Run: {config.command('topics create')}",))
    return registry.bus


def _own(config: BusConfig) -> frozenset[str]:
    return frozenset(config.topic(kind) for kind in KINDS)


def _admin(config: BusConfig) -> closing[Admin]:
    return closing(Admin(config, ClientErrors()))
