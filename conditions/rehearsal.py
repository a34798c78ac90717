"""A rehearsal: what a condition would do with these events, without a bus; for examples and tests of DAGs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from ..events.event import Event
from .condition import Condition
from .errors import ConditionError
from .firing import Firing
from .key import KeyPart, canonical_key
from .state import EMPTY, Match, State
from .step import Tick, opened, step

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNKEYED: Final = ""


def rehearse(
    condition: Condition,
    events: Iterable[Event],
    *,
    key: KeyPart | Sequence[KeyPart] | None = None,
    start: datetime | None = None,
    until: datetime | None = None,
) -> list[Firing]:
    """The firings that these events would bring, in order.

    events: each is recorded at its `time`; those recorded at once come in the order given. key: the one key
    that the wait is for; None: each key for itself. start: when the wait began, for the timers that run from
    there. until: the end, up to which timers run; by default just after the last event. ConditionError if
    the key and the condition do not go together, or an event has no time.
    """
    condition.check_key(key is not None)
    own = None if key is None else canonical_key(key)
    states: dict[str, State] = {}
    if start is not None:
        if condition.keyed and own is None:
            raise ConditionError("rehearse(start=): the keys of this condition are not known, so give a key")
        states[own or _UNKEYED] = opened(condition, _millis("start", start))
    firings: list[Firing] = []

    def tick(time_ms: int) -> None:
        for each in states:
            states[each], fired = step(condition, states[each], Tick(time_ms))
            firings.extend(fired)

    end = None if until is None else _millis("until", until)
    last = None
    for place, (stamp, event) in enumerate(sorted(map(_stamped, events), key=lambda pair: pair[0])):
        tick(stamp)
        for found, numbers in _reached(condition, own, event).items():
            match = Match(event, numbers, "rehearsal", 0, place, stamp)
            states[found], fired = step(condition, states.get(found, EMPTY), match)
            firings.extend(fired)
        last = stamp + 1
    end = last if end is None else end
    if end is not None:
        tick(end)
    return firings


def _reached(condition: Condition, key: str | None, event: Event) -> dict[str, tuple[int, ...]]:
    """{key: numbers of the matchers that accept the event with it} (K23, K24)."""
    reached: dict[str, tuple[int, ...]] = {}
    for number, matcher in enumerate(condition.matchers):
        if matcher.accepts(event):
            found = (key or _UNKEYED) if matcher.by is None else matcher.key_of(event)
            if found is not None and key in (None, found):
                reached[found] = (*reached.get(found, ()), number)
    return reached


def _stamped(event: Event) -> tuple[int, Event]:
    if event.time is None:
        raise ConditionError(f"event {event.id!r} has no time: give each event of a rehearsal one")
    return (event.time - _EPOCH) // timedelta(milliseconds=1), event


def _millis(name: str, moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ConditionError(f"rehearse({name}=) has no time zone: give one")
    return (moment - _EPOCH) // timedelta(milliseconds=1)
