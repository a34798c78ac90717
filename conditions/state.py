"""What a condition has seen so far for one key: plain data with a versioned serial form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from ..events.event import Event
from .errors import ConditionError

VERSION: Final = 1
# Identities remembered for a key, so that a repeat of an event does not count twice even across a firing.
# A larger horizon makes every state record larger, by 8 bytes an event.
SEEN_EVENTS: Final = 64


class Match(msgspec.Struct, frozen=True, array_like=True):
    """An event accepted by matchers of one condition, and where its record lies.

    matchers: numbers in `Condition.matchers`; as input of `step` all that accepted the event (with this key),
    inside a state or a firing those that hold it. timestamp_ms: the record's timestamp, ms since the epoch.
    """

    event: Event
    matchers: tuple[int, ...]
    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    @property
    def identity(self) -> tuple[str, str]:
        return self.event.identity


class State(msgspec.Struct, frozen=True, array_like=True):
    """What is pending for one key; `EMPTY` before the first match.

    matches: the pending events, each once, with the matchers that hold it; a matcher holds at most one.
    seen: 8-byte digests of the last SEEN_EVENTS identities, oldest first.
    """

    version: int = VERSION
    matches: tuple[Match, ...] = ()
    seen: bytes = b""

    @property
    def held(self) -> dict[int, Match]:
        """{number of a matcher: the event that it holds}."""
        return {number: match for match in self.matches for number in match.matchers}

    def encode(self) -> bytes:
        """The serial form, which begins with its version."""
        return _encoder.encode(self)

    @staticmethod
    def decode(data: bytes) -> State:
        """The state in a serial form; ConditionError if it is none, or of an unknown version."""
        try:
            version = _header_decoder.decode(data).version
            if version != VERSION:
                raise ConditionError(
                    f"the stored state has version {version}, this release reads version {VERSION}: run the"
                    " release that wrote it, or a later one"
                )
            return _decoder.decode(data)
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            if isinstance(error, ConditionError):
                raise
            raise ConditionError(f"the stored state cannot be read: {error}") from error


class _Header(msgspec.Struct, frozen=True, array_like=True):
    version: int


_encoder = msgspec.msgpack.Encoder()
_header_decoder = msgspec.msgpack.Decoder(_Header)
_decoder = msgspec.msgpack.Decoder(State)

EMPTY: Final = State()


def with_held(held: Mapping[int, Match], seen: bytes) -> State:
    """The state that holds these events; equal contents give equal states, in whatever order they came."""
    numbers: dict[tuple[str, str], list[int]] = {}
    matches: dict[tuple[str, str], Match] = {}
    for number in sorted(held):
        match = held[number]
        numbers.setdefault(match.identity, []).append(number)
        matches[match.identity] = match
    return State(
        matches=tuple(
            msgspec.structs.replace(match, matchers=tuple(numbers[identity]))
            for identity, match in matches.items()
        ),
        seen=seen,
    )
