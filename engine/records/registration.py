"""Registrations, their record keys, and the leases that keep one-shot registrations alive."""

from __future__ import annotations

import hashlib
import zlib
from typing import Annotated, Any, Final, Literal

import msgspec

from ...conditions import Condition, from_json
from ..bus import Headers
from ..errors import RecordError
from .codec import UNREADABLE
from .versions import VERSION

DEFAULT_MAX_KEYS = 100_000

# Kafka clients accept timestamps in this range. A registration with another one would stop every engine.
Milliseconds = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]

Kind = Literal["one-shot", "durable"]
AtLimit = Literal["dead-letter", "drop-oldest"]


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A registered condition (JSON in the subscription topic). Immutable.

    `subscription`: its name, derived from the waiting task instance or chosen for a durable subscription.
    `incarnation`: a hash of its meaning. It changes with the kind, condition, key, `since` and `fresh`, and
    with the generation (of a cleared task) and instance (of a task whose run was deleted and created again).
    `condition`: its JSON form. `since_ms`: events with an earlier record timestamp do not count. `fresh`:
    numbers of the matchers that ignore events from before the registration. `max_keys`: how many keys may be
    open. A durable subscription's limit is divided equally among the trigger partitions; a one-shot
    subscription always has the default, on its one partition. `at_limit`: what happens to further keys of a
    durable subscription.
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
        """A registration whose incarnation follows from these values, which `Registration` explains."""
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
            condition=msgspec.Raw(msgspec.json.encode(form, order="deterministic")),
            key=key,
            since_ms=since_ms,
            fresh=fresh,
            max_keys=max_keys,
            at_limit=at_limit,
        )

    def build_condition(self) -> Condition:
        """The condition. Raises ConditionError or RecordError if this version cannot read it."""
        try:
            form = msgspec.json.decode(self.condition)
        except UNREADABLE as e:
            raise RecordError(f"The condition of {self.subscription!r} is not valid JSON: {e}.") from e
        return from_json(form)


def sink_key(subscription: str) -> bytes:
    """The key of a subscription's sink record: where its firings are delivered (`delivery.sinks`)."""
    return f"sink/{subscription}".encode()


class RegistrationKey(msgspec.Struct, frozen=True):
    """The key of a registration record, `{incarnation}:{nonce}`.

    With the nonce, compaction keeps the first record of an incarnation when it is registered again.
    """

    incarnation: str
    nonce: str

    def encode(self) -> bytes:
        return f"{self.incarnation}:{self.nonce}".encode()

    @classmethod
    def decode(cls, key: bytes) -> RegistrationKey | None:
        """None for another kind of key, such as the bus record's, and for one that is not UTF-8."""
        try:
            incarnation, found, nonce = key.decode().partition(":")
        except UnicodeDecodeError:
            return None
        return cls(incarnation, nonce) if found else None


# Headers of a null that removes a leftover: a record whose registration was already removed or replaced.
LEFTOVER: Final[Headers] = (("interlock_leftover", b""),)


def is_leftover(headers: Headers | None) -> bool:
    """Whether these are the headers of a null that removes a leftover."""
    return any(name == LEFTOVER[0][0] for name, _ in headers or ())


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Incarnations that a process waits for (JSON, key `lease/{process}/{number}`).

    `released`: it waits for them no more, whatever its earlier leases name. `host`: the process's host, shown
    to administrators.
    """

    v: int = VERSION
    deployment: str
    incarnations: list[str]
    host: str
    released: bool = False


class RenewalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A process waits now for all that its leases before this record name (JSON, key `renewal/{process}`).

    `ended`: it did until now, and has ended.
    """

    v: int = VERSION
    ended: bool = False


class FailingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An engine process whose engine ends again and again (JSON, key `failing/{process}`).

    `count`: how often, since `since_ms`. `text`: the last reason.
    """

    v: int = VERSION
    deployment: str
    host: str
    count: int
    since_ms: int
    text: str


def partition_of(kind: Kind, subscription: str, key: str, partitions: int) -> int:
    """The number of the trigger, state and action partition of a key. Part of the format: do not change it.

    All keys of a one-shot subscription are on one partition; those of a durable one are distributed.
    """
    text = subscription if kind == "one-shot" else f"{subscription}\0{key}"
    return zlib.crc32(text.encode()) % partitions
