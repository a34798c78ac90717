"""What the internal topics hold: registrations, matches, states, firings, offset metadata.

Every form carries its version `v`. Readers accept the versions named in `READS`; a record of another
version is an error that names it, never a guess.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from ..conditions import Condition, from_json
from ..events.event import Event
from .config import BusConfig
from .errors import RecordError, UnknownVersion

VERSION = 1
READS = frozenset({1})
Origin = tuple[str, int]  # topic and partition of an event

T = TypeVar("T")
# What a Kafka client takes as a time; one registration beyond it would stop every engine.
Milliseconds = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
# What msgspec raises for bytes that are not the form: beside its own errors, text that is not UTF-8, and
# nesting beyond the interpreter's limit.
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that one task instance waits for (JSON in the subscription topic). Immutable.

    `subscription` names the waiting task instance, `incarnation` this meaning of it: another condition, key
    or `since` is another incarnation. `since_ms`: an event counts if its record timestamp is at or after.
    """

    v: int = VERSION
    subscription: str
    incarnation: str
    condition: dict[str, Any]
    key: str | None
    since_ms: Milliseconds

    @classmethod
    def of(cls, subscription: str, condition: Condition, key: str | None, since_ms: int) -> Registration:
        form = condition.to_json()
        meaning = msgspec.json.encode([subscription, form, key, since_ms], order="deterministic")
        return cls(
            subscription=subscription,
            incarnation=hashlib.sha256(meaning).hexdigest()[:32],
            condition=form,
            key=key,
            since_ms=since_ms,
        )

    def build_condition(self) -> Condition:
        """The condition itself; ConditionError when this version cannot read it."""
        return from_json(self.condition)


class RegistrationKey(msgspec.Struct, frozen=True):
    """Key of a registration record: `{incarnation}:{nonce}`, so that compaction keeps the first one."""

    incarnation: str
    nonce: str

    def encode(self) -> bytes:
        return f"{self.incarnation}:{self.nonce}".encode()

    @classmethod
    def decode(cls, key: bytes) -> RegistrationKey | None:
        """None for a key of another form, such as the bus record's."""
        incarnation, found, nonce = key.decode("utf-8", "replace").partition(":")
        return cls(incarnation, nonce) if found else None


class Target(msgspec.Struct, frozen=True, array_like=True):
    """One registration that an event met: its registry offset, and which of its matchers."""

    registry_offset: int
    incarnation: str
    matchers: tuple[int, ...]
    key: str


class MatchRecord(msgspec.Struct, frozen=True, array_like=True):
    """An event with all its targets on one trigger partition (msgpack in the trigger topic)."""

    v: int
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    event: Event
    targets: list[Target]


class MetaRecord(msgspec.Struct, frozen=True, array_like=True):
    """What is kept for one incarnation on its trigger partition, beside its keys (msgpack, state topic)."""

    v: int
    registry_offset: int
    marks: dict[str, int]  # "topic/partition" of a source -> highest offset that entered `step`
    closed: bool


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that was met: what a waiting task gets.

    `events`: per label the events that took part, in the CloudEvents JSON format, and `origins` their
    coordinates `{"topic", "partition", "offset"}` in the same order.
    """

    id: str
    outcome: Literal["met"]
    key: str | None
    fired_at: str
    events: dict[str, list[dict[str, Any]]]
    origins: dict[str, list[dict[str, Any]]]
    missing: list[str] = []


class ActionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A firing on its way to the task that waits for it (JSON in the action topic, key = subscription)."""

    v: int = VERSION
    subscription: str
    incarnation: str
    state: Literal["fired", "acked"]
    firing: Firing


class OffsetMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Committed with a partition's offset (JSON, at most 4,096 bytes; docs/engine.md)."""

    v: int = VERSION
    R: int
    g: list[tuple[int, int, int]] = []
    c: str = ""


class BusRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a bus was made with (JSON in the subscription topic, key `bus`).

    `partitions`: of the trigger topic. Subscriptions are spread by that number, so another one would look
    for their states where they are not.
    """

    v: int = VERSION
    partitions: int


BUS_KEY = b"bus"
_json = msgspec.json.Encoder(order="deterministic")
_msgpack = msgspec.msgpack.Encoder()


def encode_json(record: msgspec.Struct) -> bytes:
    """The JSON form of a registration, action record, bus record or offset metadata."""
    return _json.encode(record)


def encode_msgpack(record: msgspec.Struct) -> bytes:
    """The msgpack form of a match or meta record."""
    return _msgpack.encode(record)


def decode_json(form: type[T], value: bytes | str, where: str) -> T:
    """Read a JSON record; RecordError naming `where` for a damaged one or one of another version."""
    try:
        version = msgspec.json.decode(value, type=Mapping[str, Any]).get("v")
        if isinstance(version, int) and version in READS:
            return msgspec.json.decode(value, type=form)
    except _UNREADABLE as e:
        raise RecordError(f"{where} holds no valid {form.__name__}: {e}.") from e
    raise UnknownVersion(_unknown_version(form, version, where))


def decode_msgpack(form: type[T], value: bytes, where: str) -> T:
    """Read a msgpack record; errors as `decode_json`."""
    version: object
    try:
        record = msgspec.msgpack.decode(value, type=form)
        version = record.v  # type: ignore[attr-defined]
    except _UNREADABLE as e:
        version = _version_of(value)
        if version is None or version in READS:
            raise RecordError(f"{where} holds no valid {form.__name__}: {e}.") from e
    if version not in READS:
        raise UnknownVersion(_unknown_version(form, version, where))
    return record


def _version_of(value: bytes) -> int | None:
    """The version that a msgpack record begins with; a later one may have any other form."""
    try:
        items = msgspec.msgpack.decode(value, type=list[msgspec.Raw])
        return msgspec.msgpack.decode(items[0], type=int)
    except (*_UNREADABLE, IndexError):
        return None


def _unknown_version(form: type, version: object, where: str) -> str:
    return (
        f"{where} holds a {form.__name__} of version {version!r}; this Interlock reads "
        f"{', '.join(map(str, sorted(READS)))}. Run the version that wrote it, or a later one."
    )


def state_key(incarnation: str, key: str | None) -> bytes:
    """Key in the state topic: of one key's state, or of the incarnation's meta record (key None)."""
    return incarnation.encode() if key is None else f"{incarnation}/{key}".encode()


def parse_state_key(key: bytes) -> tuple[str, str | None]:
    """The opposite of `state_key`; incarnations never contain a slash. RecordError for what is no text."""
    try:
        incarnation, found, rest = key.decode().partition("/")
    except UnicodeDecodeError as e:
        raise RecordError(f"{key[:80]!r} is no state key: {e}.") from e
    return incarnation, rest if found else None


def partition_of(subscription: str, partitions: int) -> int:
    """The trigger, state and action partition of a subscription. Part of the format: never to change."""
    return zlib.crc32(subscription.encode()) % partitions


def topics_read_by_engine(config: BusConfig) -> tuple[str, str]:
    """The topics of the engines' consumer group."""
    return config.topic("event"), config.topic("trigger")
