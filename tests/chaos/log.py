"""The bus's records, decoded only by docs/understand/engine/formats.md.

Version 1 of each form. Another record raises BadRecord: only source partitions may hold unreadable records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from interlock.conditions import Condition, from_json
from interlock.events.event import Event
from interlock.events.kafka import decode

PLAIN_TYPE = "org.apache.kafka.record"


class BadRecord(Exception):
    """A record of the bus that does not have its documented form."""


class Rec(NamedTuple):
    """A committed record, as a read_committed consumer returns it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"

    def header(self, name: str) -> str | None:
        """The last header of this name as text."""
        found = [raw for each, raw in self.headers if each == name and raw is not None]
        return found[-1].decode("utf-8", "replace") if found else None


@dataclass
class Log:
    """All records read from a bus, in order for each partition.

    fault_times: when faults began and ended, and when engines worked off a backlog, in ms.
    """

    bus: str
    partitions: dict[tuple[str, int], list[Rec]] = field(default_factory=dict)
    fault_times: list[int] = field(default_factory=list)

    def add(self, record: Rec) -> None:
        self.partitions.setdefault((record.topic, record.partition), []).append(record)

    def save(self, path: Path) -> None:
        """Saves it to a file for `load`: the topics themselves are purged and compacted."""
        path.write_bytes(
            msgspec.msgpack.encode(
                [self.bus, [r for rs in self.partitions.values() for r in rs], self.fault_times]
            )
        )

    @staticmethod
    def load(path: Path) -> Log:
        bus, records, fault_times = msgspec.msgpack.decode(
            path.read_bytes(), type=tuple[str, list[Rec], list[int]]
        )
        log = Log(bus, fault_times=fault_times)
        for record in records:
            log.add(record)
        return log

    def topic(self, kind: str) -> str:
        return f"{self.bus}-{kind}"

    def of(self, topic: str) -> list[list[Rec]]:
        """The records of a topic: a list for each partition with records, in order of partitions."""
        return [self.partitions[tp] for tp in sorted(self.partitions) if tp[0] == topic]

    def kind(self, kind: str) -> list[list[Rec]]:
        """Like `of`, for one of the bus's own topics."""
        return self.of(self.topic(kind))


class Life(msgspec.Struct, eq=False):
    """One registered period of an incarnation, from its first registry record to its removal or replacement.

    r: offset of that first record. ended: offset of the record that ended it, None while it is in force.
    """

    subscription: str
    kind: str
    incarnation: str
    condition: Condition
    key: str | None
    since_ms: int
    r: int
    opened_ms: int
    ended: int | None = None

    def __str__(self) -> str:
        return f"{self.subscription} ({self.incarnation[:8]} @{self.r}, {self.condition})"


class Target(NamedTuple):
    """A registration that a match is for."""

    r: int
    incarnation: str
    matchers: tuple[int, ...]
    key: str


class MatchRecord(NamedTuple):
    """A record of the trigger topic."""

    record: Rec
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    event: Event
    targets: tuple[Target, ...]

    @property
    def origin(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"


class Stored(NamedTuple):
    """The last record of one key in the state topic. state: serialised; None if there is only a meta
    record."""

    record: Rec
    incarnation: str
    key: str | None
    r: int
    closed: bool
    state: bytes | None


@dataclass
class Registrations:
    """The content of the subscription topic: all lives by position, listed topics, bad records.

    joined_ms: when a source partition was first committed; before that, engines may be unaware of it.
    """

    lives: dict[tuple[int, str], Life] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    joined_ms: dict[tuple[str, int], int] = field(default_factory=dict)
    bad: list[str] = field(default_factory=list)


def read_registrations(log: Log) -> Registrations:
    """Folds the registry: a repeated incarnation changes nothing, another one replaces it, null ends it."""
    found = Registrations()
    by_incarnation: dict[str, Life] = {}
    by_subscription: dict[str, Life] = {}

    def end(life: Life, offset: int) -> None:
        life.ended = offset
        by_incarnation.pop(life.incarnation, None)
        if by_subscription.get(life.subscription) is life:
            del by_subscription[life.subscription]

    for record in (r for rs in log.kind("subscription") for r in rs):
        key = (record.key or b"").decode("utf-8", "replace")
        if key == "bus":
            form = _json(record)
            found.topics = tuple(form.get("topics", ()))
            continue
        if key.startswith("source/"):
            _, topic, partition = key.split("/")
            found.joined_ms.setdefault((topic, int(partition)), record.timestamp_ms)
            continue
        incarnation, colon, _ = key.partition(":")
        if not colon:
            continue  # resumptions, leases
        if record.value is None:
            if incarnation in by_incarnation:
                end(by_incarnation[incarnation], record.offset)
            continue
        try:
            form = _json(record)
            life = Life(
                subscription=form["subscription"],
                kind=form.get("kind", "one-shot"),
                incarnation=form["incarnation"],
                condition=from_json(form["condition"]),
                key=form["key"],
                since_ms=form["since_ms"],
                r=record.offset,
                opened_ms=record.timestamp_ms,
            )
        except (BadRecord, KeyError, TypeError, ValueError) as e:
            found.bad.append(f"{record}: {e}")
            continue
        if life.incarnation in by_incarnation:
            continue
        if life.subscription in by_subscription:
            end(by_subscription[life.subscription], record.offset)
        by_incarnation[life.incarnation] = by_subscription[life.subscription] = life
        found.lives[life.r, life.incarnation] = life
    return found


def read_event(record: Rec, listed: bool) -> Event:
    """The event in a record of a source; EventError for poison. listed: whether it is a listed topic."""
    names = {name for name, _ in record.headers}
    marked = any(name.startswith("ce_") for name in names)
    structured = any(
        name == "content-type" and (raw or b"")[:23].lower() == b"application/cloudevents"
        for name, raw in record.headers
    )
    if not listed or marked or structured:
        return decode(record.key, record.value, record.headers)
    kind = "application/octet-stream"
    if record.value is not None:
        try:
            text = record.value.decode()
            kind = "text/plain"
            json.loads(text)
            kind = "application/json"
        except ValueError:
            pass
    at = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
    return Event.of(
        PLAIN_TYPE,
        record.topic,
        id=f"{record.partition}/{record.offset}",
        subject=None if record.key is None else record.key.decode(),
        time=at,
        data=record.value,
        datacontenttype=kind,
    )


def read_match(record: Rec) -> MatchRecord:
    """A record of the trigger topic."""
    form = _msgpack(record)
    try:
        version, topic, partition, offset, timestamp_ms, event, targets, *_topic_id = form
        _check_version(record, version)
        attributes, *data = event
        return MatchRecord(
            record,
            topic,
            partition,
            offset,
            timestamp_ms,
            Event(attributes, data[0] if data else None),
            tuple(
                Target(r, incarnation, tuple(numbers), key) for r, incarnation, numbers, key, *_ in targets
            ),
        )
    except (TypeError, ValueError) as e:
        raise BadRecord(f"{record} holds no match: {e}") from e


def read_states(log: Log) -> dict[tuple[str, str | None], Stored]:
    """The content of the compacted state topic by (incarnation, key); key is None for meta records."""
    found: dict[tuple[str, str | None], Stored] = {}
    for record in (r for rs in log.kind("state") for r in rs):
        if record.key == b"clock":  # written only for its timestamp
            continue
        incarnation, slash, rest = (record.key or b"").decode().partition("/")
        key = rest if slash else None
        if record.value is None:
            # several partitions have meta records of a durable subscription
            found.pop((f"{incarnation}@{record.partition}" if key is None else incarnation, key), None)
            continue
        if key is None:
            found[f"{incarnation}@{record.partition}", None] = _read_meta(record, incarnation)
        else:
            found[incarnation, key] = _read_state(record, incarnation, key)
    return found


def _read_meta(record: Rec, incarnation: str) -> Stored:
    version, r, _marks, closed, _opened, only = _msgpack(record)
    _check_version(record, version)
    return Stored(record, incarnation, None, r, bool(closed), None if only is None else only[1])


def _read_state(record: Rec, incarnation: str, key: str) -> Stored:
    version, r, _wakeup, state = _msgpack(record)
    _check_version(record, version)
    return Stored(record, incarnation, key, r, False, state)


def read_action(record: Rec) -> Mapping[str, Any] | None:
    """A record of the action topic; None for the removal of a firing."""
    if record.value is None:
        return None
    form = _json(record)
    _check_version(record, form.get("v"))
    return form


def read_offset_metadata(text: str) -> Mapping[str, Any]:
    """The metadata committed with an offset; {} if there is none."""
    return json.loads(text) if text else {}


def _json(record: Rec) -> dict[str, Any]:
    try:
        form = json.loads(record.value or b"")
    except ValueError as e:
        raise BadRecord(f"{record} holds no JSON: {e}") from e
    if not isinstance(form, dict):
        raise BadRecord(f"{record} holds no JSON object")
    return form


def _msgpack(record: Rec) -> Sequence[Any]:
    try:
        return msgspec.msgpack.decode(record.value or b"", type=list)
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise BadRecord(f"{record} holds no msgpack array: {e}") from e


def _check_version(record: Rec, version: object) -> None:
    if version != 1:
        raise BadRecord(f"{record} has version {version!r}")
