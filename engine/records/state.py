"""The records of a state partition: the states of keys, and a meta record for each incarnation."""

from __future__ import annotations

import msgspec

from ..errors import RecordError

CLOCK_KEY = b"clock"  # a record that is written only to get the broker's timestamp
CLOCK_VALUE = b""


class StateRecord(msgspec.Struct, frozen=True, array_like=True):
    """The state of one key of the registration at `registry_offset` (msgpack in the state topic).

    `wakeup_ms`: when the key must next be evaluated or closed.
    """

    v: int
    registry_offset: int
    wakeup_ms: int | None
    state: bytes


class MetaRecord(msgspec.Struct, frozen=True, array_like=True):
    """What is stored of an incarnation on a trigger partition beside its keys (msgpack, state topic).

    `marks`: {`MatchRecord.source`: the highest evaluated offset}. `closed`: it has fired, and ignores further
    matches. `opened`: its timers were started. `only`: wakeup and state of a subscription with a single key,
    whose state has no record of its own.
    """

    v: int
    registry_offset: int
    marks: dict[str, int]
    closed: bool
    opened: bool
    only: tuple[int | None, bytes] | None


def state_key(incarnation: str, key: str | None) -> bytes:
    """The key of a state record, or of an incarnation's meta record (key None)."""
    return incarnation.encode() if key is None else f"{incarnation}/{key}".encode()


def parse_state_key(key: bytes) -> tuple[str, str | None]:
    """(Incarnation, key) of a record key: the inverse of `state_key`. RecordError if it is not UTF-8."""
    try:
        incarnation, found, rest = key.decode().partition("/")
    except UnicodeDecodeError as e:
        raise RecordError(f"{key[:80]!r} is not a state key: {e}.") from e
    return incarnation, rest if found else None
