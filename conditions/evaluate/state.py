"""The state of a condition for one key: plain data with a serial form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Final

import msgspec

from ...events.event import Event
from ..errors import ConditionError

MAX_MATCHERS: Final = 256  # no more than the nodes of a condition

Number = Annotated[int, msgspec.Meta(ge=0, lt=MAX_MATCHERS)]  # of a matcher; checked when a state is read

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Match(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """An event accepted by matchers of one condition, and the position of its record.

    matchers: numbers in `Condition.matchers`: as input of `step`, of all matchers that accepted the event for
    this key; in a state or a firing, of those that hold it. timestamp_ms: the event's stamp, which is the
    record's timestamp in ms since the epoch. values: {number of a matcher of count(distinct=) or
    at_least(distinct=): the event's value there}; None if there is none. written: the key in the event's
    spelling, if that differs and the event's data, which contain it, were replaced by a reference.
    """

    event: Event
    matchers: Annotated[tuple[Number, ...], msgspec.Meta(min_length=1)]
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    values: dict[int, str] | None = None
    written: str | None = None

    def value_for(self, number: int) -> str:
        """The event's value at the matcher's `distinct` paths (Q5); "" if it has none."""
        return "" if self.values is None else self.values.get(number, "")

    @property
    def identity(self) -> tuple[str, str]:
        """(source, id) of the event."""
        attributes = self.event.attributes
        return (attributes["source"], attributes["id"])

    @cached_property
    def time_us(self) -> int:
        """The event's time, microseconds since the epoch: its `time`, else the record's timestamp (T1)."""
        time = self.event.time
        return self.timestamp_ms * 1000 if time is None else (time - _EPOCH) // _MICROSECOND

    @cached_property
    def rank(self) -> tuple[int, str, str]:
        """The order of events: (time, source, id) (T3)."""
        return (self.time_us, *self.identity)


by_rank: Final = attrgetter("rank")


class State(msgspec.Struct, frozen=True, array_like=True):
    """What a condition holds for one key. Starts as EMPTY, or `opened()` if a timer needs the start.

    matches: the held events, each once, in the order T3, with the matchers that hold it.
    seen: 8-byte digests of the last identities (seen.py), oldest first. last_ms: the greatest stamp.
    waiting: matches that wait for a due time or for their turn, in order (W1 to W5).
    clock_ms: the last tick. since_ms: matches stamped before it do not count (Y1).
    opened_ms: when the start of the wait armed the expiry; armed_ms: the first match's stamp (X2).
    timer_starts: {number of an `absent` or `.quiet()` node: the stamp from which its time runs}.
    negated_times: {number of a negated matcher: times of its events in microseconds, ascending} (E8).
    dropped: how many events exceeded a limit since the state began (H3, W4).
    """

    matches: tuple[Match, ...] = ()
    seen: bytes = b""
    last_ms: int | None = None
    waiting: tuple[Match, ...] = ()
    clock_ms: int | None = None
    since_ms: int | None = None
    opened_ms: int | None = None
    armed_ms: int | None = None
    timer_starts: dict[int, int] = {}
    negated_times: dict[int, tuple[int, ...]] = {}
    dropped: int = 0

    @property
    def is_idle(self) -> bool:
        """True if it holds only `seen`: if the state were removed, only a repeat could count again."""
        return not (self.matches or self.waiting or self.timer_starts or self.negated_times) and (
            self.opened_ms is None and self.armed_ms is None
        )

    @property
    def held(self) -> dict[int, tuple[Match, ...]]:
        """{number of a matcher: its held events in the order T3}."""
        held: dict[int, tuple[Match, ...]] = {}
        for match in self.matches:
            for number in match.matchers:
                held[number] = (*held.get(number, ()), match)
        return held

    def encode(self) -> bytes:
        """The serial form. Whoever stores it also stores its version (`engine.records.versions`)."""
        return _encoder.encode(self)

    @staticmethod
    def decode(data: bytes) -> State:
        """Reads a serial form. Raises ConditionError if it is invalid."""
        try:
            state = _decoder.decode(data)
            for match in (*state.matches, *state.waiting) if state.waiting else state.matches:
                attributes = match.event.attributes
                attributes["source"], attributes["id"]  # KeyError if one is missing
        except (msgspec.MsgspecError, RecursionError, ValueError, KeyError) as error:
            raise ConditionError(f"the stored state cannot be read: {error}") from error
        return state


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(State)

EMPTY: Final = State()


def of_another_condition(number: int, matchers: int) -> str:
    """The error text for a state that names a matcher which the condition does not have."""
    return (
        f"the state holds an event for matcher {number}, but the condition has {matchers} matchers: this is"
        " the state of another condition"
    )


def as_matches(held: Mapping[int, Sequence[Match]] | Sequence[Sequence[Match]]) -> tuple[Match, ...]:
    """`State.matches` from the events of each matcher; does not depend on the order of arrival."""
    numbers: dict[tuple[str, str], list[int]] = {}
    matches: dict[tuple[str, str], Match] = {}
    items: Iterable[tuple[int, Sequence[Match]]] = (
        sorted(held.items()) if isinstance(held, Mapping) else enumerate(held)
    )
    for number, events in items:
        for match in events:
            numbers.setdefault(match.identity, []).append(number)
            matches[match.identity] = match
    found = [with_matchers(match, tuple(numbers[identity])) for identity, match in matches.items()]
    if len(found) > 1:
        found.sort(key=by_rank)
    return tuple(found)


def with_matchers(match: Match, matchers: tuple[int, ...]) -> Match:
    """The match, held by these matchers."""
    if match.matchers == matchers:
        return match
    return msgspec.structs.replace(match, matchers=matchers)
