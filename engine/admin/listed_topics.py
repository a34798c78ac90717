"""Lists, adds and removes the topics that a bus reads, while engines run.

Changes are written to the registry, which every engine follows; nothing needs a restart. If two
administrators change the list at the same time, the later write wins.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """A topic that the bus reads. `partitions`: None if the topic does not exist."""

    topic: str
    partitions: int | None
    listed: bool  # False: the bus's own event topic


def sources(config: BusConfig) -> list[Source]:
    """The topics that the bus reads, its own event topic first."""
    record = _bus_record(config, read_registry(config))
    own = config.topic("event")
    with closing(Admin(config)) as admin:
        found = admin.topics([own, *record.topics])
    return [
        Source(name, None if (topic := found[name]) is None else topic.partitions, name != own)
        for name in (own, *record.topics)
    ]


def add_topics(config: BusConfig, names: Sequence[str]) -> list[str]:
    """Add topics to the bus's list. Returns those that were not listed before.

    Raises TopicsError, and changes nothing, if a topic does not exist or belongs to the bus itself.
    """
    record = _bus_record(config, read_registry(config))
    problems = [f"Topic {name!r} belongs to the bus itself." for name in names if name in _own(config)]
    others = [name for name in dict.fromkeys(names) if name not in _own(config)]
    with closing(Admin(config)) as admin:
        found = admin.topics(others)
    problems += [f"Topic {name!r} does not exist." for name in others if found[name] is None]
    if problems:
        raise TopicsError(*problems, "Nothing was changed.")
    new = [name for name in others if name not in record.topics]
    if new:
        write_bus_record(config, msgspec.structs.replace(record, topics=(*record.topics, *new)))
    return new


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
    left = tuple(name for name in record.topics if name not in names)
    changed: dict[bytes, bytes | None] = {BUS_KEY: encode_json(msgspec.structs.replace(record, topics=left))}
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
