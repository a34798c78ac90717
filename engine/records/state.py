"""What a state partition holds: states of keys, and a meta record for each incarnation."""

from __future__ import annotations

import msgspec

from ..errors import RecordError

CLOCK_KEY = b"clock"  # of a state partition: a record written for its timestamp alone
CLOCK_VALUE = b""


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
