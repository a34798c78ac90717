"""Lists, adds and removes the topics that a bus reads, while engines run.

Changes are written to the registry, which every engine follows; nothing needs a restart. If two
administrators change the list at the same time, the later write wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import msgspec

from ..config import KINDS, BusConfig
from ..errors import TopicsError
from ..kafka.admin import Admin
from ..kafka.topics import read_registry, write_bus_record, write_registry
from ..records import BUS_KEY, BusRecord, encode_json, registry_key
from ..registry.registry import Registry


@dataclass(frozen=True)
class Source:
    """A topic that the bus reads. `partitions`: None if the topic does not exist.

    `reads`: what its records are, "CloudEvents" or "plain records".
    """

    topic: str
    partitions: int | None
    listed: bool  # False: the bus's own event topic
    reads: str = "CloudEvents"


@dataclass(frozen=True)
class Added:
    """What `add_topics` changed. declared: topics that were listed already, and hold CloudEvents from now on.

    notes: what to know about the topics, one sentence each.
    """

    new: tuple[str, ...]
    declared: tuple[str, ...]
    notes: tuple[str, ...]


def sources(config: BusConfig) -> list[Source]:
    """The topics that the bus reads, its own event topic first."""
    record = _bus_record(config, read_registry(config))
    own = config.topic("event")
    with closing(Admin(config)) as admin:
        found = admin.topics([own, *record.topics])
    return [
        Source(
            name,
            None if (topic := found[name]) is None else topic.partitions,
            name != own,
            "CloudEvents" if name == own or name in record.cloudevents else "plain records",
        )
        for name in (own, *record.topics)
    ]


def add_topics(config: BusConfig, names: Sequence[str], cloudevents: bool = False) -> Added:
    """Add topics to the bus's list.

    cloudevents: their owner says that they hold CloudEvents; also for topics that are listed already. Raises
    TopicsError, and changes nothing, if a topic does not exist or belongs to the bus itself.
    """
    record = _bus_record(config, read_registry(config))
    problems = [f"Topic {name!r} belongs to the bus itself." for name in names if name in _own(config)]
    others = [name for name in dict.fromkeys(names) if name not in _own(config)]
    with closing(Admin(config)) as admin:
        found = admin.topics(others)
        notes = [
            note
            for name in others
            if found[name] is not None
            for note in notes_of(name, admin.settings(name))
        ]
    problems += [f"Topic {name!r} does not exist." for name in others if found[name] is None]
    if problems:
        raise TopicsError(*problems, "Nothing was changed.")
    new = tuple(name for name in others if name not in record.topics)
    declared = tuple(name for name in others if cloudevents and name not in record.cloudevents)
    if new or declared:
        changed = msgspec.structs.replace(
            record, topics=(*record.topics, *new), cloudevents=(*record.cloudevents, *declared)
        )
        write_bus_record(config, changed)
    return Added(new, tuple(name for name in declared if name not in new), tuple(notes))


def notes_of(name: str, settings: Mapping[str, str] | None) -> list[str]:
    """What the settings of a listed topic mean for its waits, one sentence each."""
    if settings is None:
        return [f"The settings of {name!r} are not known: this connection lacks DescribeConfigs on it."]
    notes = []
    if settings.get("message.timestamp.type") != "LogAppendTime":
        notes.append(
            f"Producers set the timestamps of {name!r} (message.timestamp.type=CreateTime): a wrong clock of"
            " theirs moves an event before or after a since, a window or an expiry, and a record without a"
            " timestamp that a wait wants becomes a dead letter. If its owner agrees, set"
            " message.timestamp.type=LogAppendTime."
        )
    if "compact" in settings.get("cleanup.policy", ""):
        notes.append(
            f"{name!r} is compacted: each tombstone is an event without data, which a matcher without where,"
            " filters or by accepts too."
        )
    return notes


def remove_topics(config: BusConfig, names: Sequence[str]) -> None:
    """Remove topics from the bus's list. Raises TopicsError, and changes nothing, if one is not listed.

    Also removes the registry's records about their partitions, so that a topic that is added again is read
    from its end at that time.
    """
    registry = read_registry(config)
    record = _bus_record(config, registry)
    problems = [
        f"Topic {name!r} belongs to the bus itself."
        if name in _own(config)
        else f"Topic {name!r} is not listed."
        for name in names
        if name not in record.topics
    ]
    if problems:
        listed = ", ".join(record.topics) or "no other topic"
        raise TopicsError(*problems, f"Bus {config.name!r} lists {listed}. Nothing was changed.")
    left = msgspec.structs.replace(
        record,
        topics=tuple(name for name in record.topics if name not in names),
        cloudevents=tuple(name for name in record.cloudevents if name not in names),
    )
    changed: dict[bytes, bytes | None] = {BUS_KEY: encode_json(left)}
    for tp in sorted({*registry.sources, *registry.resumes, *registry.problems}):
        if tp.topic in names:
            changed[registry_key("source", *tp)] = None
            changed[registry_key("resume", *tp)] = None
            changed[registry_key("problem", *tp)] = None
    write_registry(config, changed)


def _bus_record(config: BusConfig, registry: Registry) -> BusRecord:
    if registry.bus is None:
        raise TopicsError(f"Bus {config.name!r} has no bus record. Run: {config.command('topics create')}")
    return registry.bus


def _own(config: BusConfig) -> frozenset[str]:
    return frozenset(config.topic(kind) for kind in KINDS)
