"""What the internal topics hold: registrations, matches, states, firings, offset metadata.

Every record carries its version `v`; `versions` has the rule of who reads and writes which.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from ...conditions import Condition, from_json
from ...events.event import Event
from ..bus import Headers
from ..errors import RecordError, UnknownVersion
from .versions import VERSION, is_read, versions_read

DEFAULT_MAX_KEYS = 100_000

T = TypeVar("T")
# What a Kafka client takes as a time; one registration beyond it would stop every engine.
Milliseconds = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
# What msgspec raises for bytes that are not the form: beside its own errors, text that is not UTF-8, and
# nesting beyond the interpreter's limit.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


Kind = Literal["one-shot", "durable"]
AtLimit = Literal["dead-letter", "drop-oldest"]


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A condition in force (JSON in the subscription topic). Immutable.

    `subscription` names it: the waiting task instance, or a durable subscription's own name. `incarnation`
    this meaning of it: another kind, condition, key or `since` is another incarnation, and so is another
    generation (of a task that was cleared) or instance (of a task whose run was deleted and made again).
    `condition`: its JSON form, as it was written. `since_ms`: an event counts if its record timestamp is at
    or after. `fresh`: numbers of matchers that count no event of before the registration itself. `max_keys`:
    how many keys may be open, of a durable one spread evenly over the trigger partitions; a one-shot one has
    them all on one, and the default. `at_limit`: what becomes of new keys of a durable one beyond that.
    """

    v: int = VERSION
    subscription: str
    kind: Kind = "one-shot"
    incarnation: str
    condition: msgspec.Raw
    key: str | None
    since_ms: Milliseconds
    fresh: tuple[int, ...] = ()
    max_keys: Annotated[int, msgspec.Meta(ge=1)] = DEFAULT_MAX_KEYS
    at_limit: AtLimit = "dead-letter"

    @classmethod
    def of(
        cls,
        subscription: str,
        condition: Condition,
        key: str | None,
        since_ms: int,
        *,
        kind: Kind = "one-shot",
        generation: int = 0,
        fresh: tuple[int, ...] = (),
        instance: str | None = None,
        max_keys: int = DEFAULT_MAX_KEYS,
        at_limit: AtLimit = "dead-letter",
    ) -> Registration:
        form = condition.to_json()
        meaning: list[Any] = [subscription, form, key, since_ms]
        if kind != "one-shot":
            meaning.append(kind)
        if generation or fresh:
            meaning += [generation, fresh]
        if instance is not None:
            meaning.append({"instance": instance})
        return cls(
            subscription=subscription,
            kind=kind,
            incarnation=hashlib.sha256(msgspec.json.encode(meaning, order="deterministic")).hexdigest()[:32],
            condition=msgspec.Raw(_json.encode(form)),
            key=key,
            since_ms=since_ms,
            fresh=fresh,
            max_keys=max_keys,
            at_limit=at_limit,
        )

    def build_condition(self) -> Condition:
        """The condition itself; ConditionError or RecordError when this version cannot read it."""
        try:
            form = msgspec.json.decode(self.condition)
        except UNREADABLE as e:
            raise RecordError(f"The condition of {self.subscription!r} is no valid JSON: {e}.") from e
        return from_json(form)


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


# Of a null that removes no registration: its record was left over by an earlier removal or replacement.
LEFTOVER: Final[Headers] = (("interlock_leftover", b""),)


def is_leftover(headers: Headers | None) -> bool:
    """Whether these are the headers of such a null."""
    return any(name == LEFTOVER[0][0] for name, _ in headers or ())


class Target(msgspec.Struct, frozen=True, array_like=True):
    """One registration that an event met: its registry offset, and which of its matchers."""

    registry_offset: int
    incarnation: str
    matchers: tuple[int, ...]
    key: str


class MatchRecord(msgspec.Struct, frozen=True, array_like=True):
    """An event with all its targets on one trigger partition (msgpack in the trigger topic).

    `topic_id`: offsets of a topic that is deleted and made again are other offsets.
    """

    v: int
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    event: Event
    targets: list[Target]
    topic_id: str = ""

    @property
    def source(self) -> str:
        """The source partition, as marks name it."""
        return f"{self.topic_id or self.topic}/{self.partition}"


class StateRecord(msgspec.Struct, frozen=True, array_like=True):
    """The state of one key (msgpack in the state topic). `wakeup_ms`: when it must be looked at again.

    `registry_offset`: of the registration whose state it is.
    """

    v: int
    registry_offset: int
    wakeup_ms: int | None
    state: bytes


class MetaRecord(msgspec.Struct, frozen=True, array_like=True):
    """What is kept for one incarnation on a trigger partition, beside its keys (msgpack, state topic).

    `marks`: `MatchRecord.source` -> the highest offset that was judged. `opened`: its timers run.
    `only`: wakeup and state of a subscription with a single key, which has no record of its own.
    """

    v: int
    registry_offset: int
    marks: dict[str, int]
    closed: bool
    opened: bool
    only: tuple[int | None, bytes] | None


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that was met, or whose time is up: what a waiting task gets.

    `events`: per label the events that took part, in the CloudEvents JSON format, and `origins` their
    records' `{"topic", "partition", "offset", "timestamp_ms"}` in the same order. `missing`: labels of what
    was not there. `left_out`: by label, how many events there was no room for. `timer_ms`: the due time that
    brought it. `incomplete`: that time passed without a cut.
    """

    id: str
    outcome: Literal["met", "expired"]
    key: str | None
    fired_at: str
    events: dict[str, list[dict[str, Any]]]
    origins: dict[str, list[dict[str, Any]]]
    missing: list[str] = []
    left_out: dict[str, int] = {}
    timer_ms: int | None = None
    incomplete: bool = False


class ActionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A firing on its way to who waits for it (JSON in the action topic, key: `action_key`)."""

    v: int = VERSION
    subscription: str
    kind: Kind = "one-shot"
    incarnation: str
    state: Literal["fired", "acked"]
    firing: Firing

    @property
    def key(self) -> bytes:
        """The record key: one per subscription, or per firing of a durable one."""
        text = self.subscription if self.kind == "one-shot" else f"{self.subscription}\0{self.firing.id}"
        return text.encode()


class Trial(msgspec.Struct, frozen=True, array_like=True):
    """A partition whose next records are suspected of having ended a process.

    docs/understand/engine/suspects.md has the rules.

    `width`: how many of them a pass may take, 0 for one alone. `left`: how many are still suspected. `at`: of
    0 the record that is tried alone, -1 where none is yet; else the offset from which that many are taken, -1
    where a process has ended beyond it before. `trying`: the committer was about to try it. `ended`:
    transactional ids of processes that ended on it.
    """

    width: int
    left: int
    at: int = -1
    trying: bool = False
    ended: tuple[str, ...] = ()


class Aside(msgspec.Struct, frozen=True, array_like=True):
    """How many records of a partition were set aside because processes ended on them; `at`: the last one."""

    count: int
    at: int


class OffsetMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Committed with an offset, at most 4,095 characters of JSON: docs/understand/engine/look-back.md.

    `R`: the registry position applied. `g`: scans in progress. `c`, `n`: the transactional id of the
    committer and the number of its transaction. `t`: the topic's id. `e`: the committer ended in good order
    with it. `a`, `s`: of records on which processes end; versions that do not know them drop them.
    """

    v: int = VERSION
    R: int
    g: list[tuple[int, int, int]] = []
    c: str = ""
    n: int = 0
    t: str = ""
    e: bool | msgspec.UnsetType = msgspec.UNSET
    a: Trial | msgspec.UnsetType = msgspec.UNSET
    s: Aside | msgspec.UnsetType = msgspec.UNSET


class BusRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a bus was made with, and what it reads (JSON in the subscription topic, key `bus`).

    `v`: the version that writers give all records. `partitions`: of the trigger topic. Subscriptions are
    spread by that number, so another one would look for their states where they are not. `topics`: sources
    beside the event topic. `topic_ids`: of the internal topics, by kind.
    """

    v: int = VERSION
    partitions: int
    topics: tuple[str, ...] = ()
    topic_ids: dict[str, str] = {}


class SourceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """That a partition has been in use (JSON, key `source/{topic}/{partition}`)."""

    v: int = VERSION
    topic_id: str


class ResumeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition that stopped goes on (JSON, key `resume/{topic}/{partition}`)."""

    v: int = VERSION
    topic_id: str
    offset: int


class ProblemRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a partition, as its owner tells (JSON, key `problem/{topic}/{partition}`)."""

    v: int = VERSION
    text: str


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The incarnations that a process waits for (JSON, key `lease/{process}/{number}`).

    `host`: where it runs, for people.
    """

    v: int = VERSION
    deployment: str
    incarnations: list[str]
    host: str


BUS_KEY = b"bus"
CLOCK_KEY = b"clock"  # of a state partition: a record written for its timestamp alone
CLOCK_VALUE = b""


class _Version(msgspec.Struct):
    """What all JSON records have; a later version's may have any other form."""

    v: object = None


_version = msgspec.json.Decoder(_Version)
_json = msgspec.json.Encoder(order="deterministic")
_msgpack = msgspec.msgpack.Encoder()


def encode_json(record: msgspec.Struct) -> bytes:
    """The JSON form of a registration, action record, bus record or offset metadata."""
    return _json.encode(record)


def encode_msgpack(record: msgspec.Struct) -> bytes:
    """The msgpack form of a match, state or meta record."""
    return _msgpack.encode(record)


def decode_json(form: type[T], value: bytes | str, where: str) -> T:
    """Read a JSON record; RecordError naming `where` for a damaged one or one of another version."""
    try:
        version = _version.decode(value).v
        if is_read(version):
            return msgspec.json.decode(value, type=form)
    except UNREADABLE as e:
        raise RecordError(f"{where} holds no valid {form.__name__}: {e}.") from e
    raise UnknownVersion(_unknown_version(form, version, where))


def decode_msgpack(form: type[T], value: bytes, where: str) -> T:
    """Read a msgpack record; errors as `decode_json`."""
    version: object
    try:
        record = msgspec.msgpack.decode(value, type=form)
        version = record.v  # type: ignore[attr-defined]
    except UNREADABLE as e:
        version = _version_of(value)
        if version is None or is_read(version):
            raise RecordError(f"{where} holds no valid {form.__name__}: {e}.") from e
    if not is_read(version):
        raise UnknownVersion(_unknown_version(form, version, where))
    return record


def _version_of(value: bytes) -> int | None:
    """The version that a msgpack record begins with; a later one may have any other form."""
    try:
        items = msgspec.msgpack.decode(value, type=list[msgspec.Raw])
        return msgspec.msgpack.decode(items[0], type=int)
    except (*UNREADABLE, IndexError):
        return None


def _unknown_version(form: type, version: object, where: str) -> str:
    return (
        f"{where} holds a {form.__name__} of version {version!r}; this Interlock reads "
        f"{', '.join(map(str, versions_read()))}. Run the version that wrote it, or a later one."
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


def partition_of(kind: Kind, subscription: str, key: str, partitions: int) -> int:
    """The trigger, state and action partition of a subscription's key. Part of the format: never to change.

    A one-shot subscription has all its keys on one partition; a durable one is spread by key.
    """
    text = subscription if kind == "one-shot" else f"{subscription}\0{key}"
    return zlib.crc32(text.encode()) % partitions


def place_key(kind: Literal["source", "resume", "problem"], topic: str, partition: int) -> bytes:
    """The registry key of a source, resume or problem record."""
    return f"{kind}/{topic}/{partition}".encode()
