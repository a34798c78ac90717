"""Runs a condition on given events, without a bus; for examples and tests of DAGs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import Final, NamedTuple

import msgspec

from ..events.event import Event
from .errors import ConditionError
from .evaluate.firing import Firing, decided_ms
from .evaluate.state import EMPTY, Match, State
from .evaluate.step import Tick, next_due, opened, step
from .explanation import Explanation, Seen, explain
from .explanation.explain import MAX_NEAR_MISSES, moment_of
from .nodes.condition import Condition, not_a_condition
from .nodes.key import KeyPart, canonical_key, values_in
from .nodes.paths import counting_matchers
from .nodes.zoned import zoned_key

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_UNKEYED: Final = ""
_TOPIC: Final = "rehearsal"

Moment = datetime | str
Key = KeyPart | Sequence[KeyPart]
Given = Event | Seen | tuple[Event, Moment]


class Rehearsed(Firing, frozen=True, array_like=True, kw_only=True):
    """A firing of a rehearsal.

    key: in canonical form; None if the condition reads none. fired_at: the due time, or the stamp of the last
    match; for an ordered condition a millisecond later (W5).
    """

    key: str | None
    fired_at: datetime


def rehearse(
    condition: Condition,
    events: Iterable[Given],
    *,
    key: Key | None = None,
    start: Moment | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
) -> list[Rehearsed]:
    """The firings of the condition on these events, in order.

    Moments are aware datetimes or ISO 8601 text.
    events: each is recorded at its `time`, or at the moment in (event, moment) or Seen. Events recorded at
        the same moment come in the order given.
    key: the key that the wait is for; None: each key has its own state.
    start: when the wait began; needed by timers that count from the start of the wait.
    since: events recorded before it do not count (Y1).
    until: timers run up to it, and events recorded after it do not count; default: just after the last event.

    Raises ConditionError for invalid arguments, for a key that does not fit the condition, if a timer needs
    a start and none is given, and for an event without a time.
    """
    moments = {"start": start, "since": since, "until": until}
    return played("rehearse", condition, events, key, moments).firings


def explain_rehearsal(
    condition: Condition,
    events: Iterable[Given],
    *,
    key: Key | None = None,
    open_key: Key | None = None,
    start: Moment | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    near_misses: int = MAX_NEAR_MISSES,
) -> Explanation:
    """Explains why `rehearse` with the same arguments did not fire, or did not fire again.

    It explains the state at `until`; near misses come from the same events. open_key: the key to explain if
    `key` is not given; needed if the events have several keys. near_misses: as for `explain`.
    """
    name = "explain_rehearsal"
    done = played(name, condition, events, key, {"start": start, "since": since, "until": until})
    if key is not None and open_key is not None:
        raise ConditionError(f"{name}(open_key=) is for a rehearsal without key=: give one of them")
    if open_key is not None:
        _check_parts(name, "open_key", condition, open_key)
    own = _key_to_explain(name, condition, done, key if open_key is None else open_key)
    if done.end_ms is None:
        raise ConditionError(f"{name}() without events needs a time: give until=")
    state = done.states.get(own, done.first)
    return explain(
        condition,
        state,
        done.end_ms,
        done.read[::-1],
        own or None,
        near_misses=near_misses,
        was_read=lambda _: True,
    )


class Played(NamedTuple):
    """What the events of a rehearsal led to.

    states: {key: its last state}; first: the initial state of other keys. read: the events up to `until`, in
    the order of their stamps. end_ms: the last tick; None without events, `start` and `until`.
    """

    firings: list[Rehearsed]
    states: dict[str, State]
    first: State
    read: list[Seen]
    end_ms: int | None


def played(
    name: str,
    condition: Condition,
    events: Iterable[Given],
    key: Key | None,
    moments: Mapping[str, Moment | None],
) -> Played:
    """Gives `step` the events, each after a tick for the keys that may fire; at the end a tick for all keys.

    name: the call, for errors. moments: its `start`, `since` and `until`, in this order, or None for each.
    """
    if not isinstance(condition, Condition):
        raise ConditionError(not_a_condition(f"argument 1 of {name}", condition))
    _check_parts(name, "key", condition, key)
    condition.check_key(key is not None)
    own = None if key is None else _canonical(name, "key", key)
    start_ms, since_ms, end_ms = (
        None if moment is None else moment_of(f"{name}({argument}=", moment)
        for argument, moment in moments.items()
    )
    _check_start(name, condition, own, start_ms, end_ms)
    read = sorted(recorded(name, events), key=_stamp)
    if end_ms is not None:
        read = [seen for seen in read if _stamp(seen) <= end_ms]
    elif read:
        after_last = _stamp(read[-1]) + 1
        end_ms = after_last if start_ms is None else max(after_last, start_ms)
    else:
        end_ms = start_ms

    first = msgspec.structs.replace(EMPTY, since_ms=since_ms)
    states: dict[str, State] = {}
    if start_ms is not None:
        states[own or _UNKEYED] = opened(condition, start_ms, since_ms)
    firings: list[Rehearsed] = []

    due = _DueKeys()

    def take(key: str, state: State, given: Match | Tick) -> tuple[Firing, ...]:
        states[key], fired = step(condition, state, given)
        due.add(key, next_due(condition, states[key]))
        return fired

    def tick(keys: Iterable[str], time_ms: int) -> None:
        fired = [
            _rehearsed(firing, key, decided_ms(firing, time_ms))
            for key in keys
            for firing in take(key, states[key], Tick(time_ms))
        ]
        firings.extend(sorted(fired, key=lambda firing: firing.fired_at))

    for each, state in states.items():
        due.add(each, next_due(condition, state))
    for index, seen in enumerate(read):
        stamp = _stamp(seen)
        tick(due.pop_until(stamp), stamp)
        for reached_key, accepted in _reached(condition, own, seen.event).items():
            numbers, values = counting_matchers(condition.distinct_paths, accepted, seen.event)
            if not numbers:
                continue
            match = Match(
                seen.event,
                numbers,
                _TOPIC if seen.topic is None else seen.topic,
                0 if seen.partition is None else seen.partition,
                index if seen.offset is None else seen.offset,
                stamp,
                values,
            )
            fired = take(reached_key, states.get(reached_key, first), match)
            firings.extend(_rehearsed(firing, reached_key, stamp) for firing in fired)
    if end_ms is not None:
        tick(list(states), end_ms)
    return Played(firings, states, first, read, end_ms)


class _DueKeys:
    """The keys that a tick of a given time may fire; a tick of every key at each event would be quadratic."""

    def __init__(self) -> None:
        self._due: list[tuple[int, str]] = []  # a heap; a key whose time has changed has outdated entries
        self._number: dict[str, int] = {}  # of each key, in the order in which they came

    def add(self, key: str, time_ms: int | None) -> None:
        """time_ms: `next_due` of the key's state."""
        self._number.setdefault(key, len(self._number))
        if time_ms is not None:
            heappush(self._due, (time_ms, key))

    def pop_until(self, time_ms: int) -> list[str]:
        """The keys that are due by then, the oldest first; some may not be due any more."""
        found: set[str] = set()
        while self._due and self._due[0][0] <= time_ms:
            found.add(heappop(self._due)[1])
        return sorted(found, key=self._number.__getitem__)


def _check_parts(name: str, argument: str, condition: Condition, key: Key | None) -> None:
    one = condition.key_parts == 1 and isinstance(key, str)  # a text that looks like several values (K15)
    given = 1 if one else values_in(key)
    if key is not None and condition.keyed and given != condition.key_parts:
        raise ConditionError(
            f"{name}({argument}=) has {given} value(s), and the matchers read {condition.key_parts}: give a"
            " list with one for each path in by=, in their order"
        )


def _check_start(
    name: str, condition: Condition, key: str | None, start_ms: int | None, until_ms: int | None
) -> None:
    """Raises ConditionError if a start is missing or meaningless."""
    plan = condition.plan
    if start_ms is not None:
        if condition.keyed and key is None:
            raise ConditionError(f"{name}(start=): the keys of this condition are not known: give key=")
        if until_ms is not None and until_ms < start_ms:
            raise ConditionError(f"{name}(until=) is earlier than start=: give a later one")
    elif plan.watches_from_the_start:
        raise ConditionError(
            f'{name}(): absent(armed_by="subscription") watches from the start of the wait: give start='
        )
    elif key is not None and plan.expires and not plan.expires_by_event:
        raise ConditionError(
            f"{name}(key=): the expiry of a wait for one key counts from its start: give start=, or write"
            ' expires(after=..., armed_by="event") to count from the first match'
        )


def _key_to_explain(name: str, condition: Condition, done: Played, key: Key | None) -> str:
    if key is not None:
        return _canonical(name, "open_key", key)
    if not condition.keyed or not done.states:  # without events the states of all keys are the same
        return _UNKEYED
    if len(done.states) == 1:
        return next(iter(done.states))
    keys = ", ".join(sorted(done.states)[:5]) or "none"
    raise ConditionError(
        f"{name}() explains one key, and there are {len(done.states)} ({keys}): give open_key=, or key= for"
        " a wait for one key"
    )


def _canonical(name: str, argument: str, key: Key) -> str:
    try:
        return canonical_key(zoned_key(key, None))
    except ConditionError as error:
        raise ConditionError(f"{name}({argument}=): {error}") from None


def _rehearsed(firing: Firing, key: str, fired_ms: int) -> Rehearsed:
    return Rehearsed(
        firing.outcome,
        firing.taking_part,
        firing.missing,
        firing.timer_ms,
        key=key or None,
        fired_at=_EPOCH + fired_ms * _MILLISECOND,
    )


def _reached(condition: Condition, key: str | None, event: Event) -> dict[str, tuple[int, ...]]:
    """{key: numbers of the matchers that accept the event for it} (K23, K24)."""
    reached: dict[str, tuple[int, ...]] = {}
    for number, matcher in enumerate(condition.matchers):
        if matcher.accepts(event):
            found = (key or _UNKEYED) if matcher.by is None else matcher.key_of(event)
            if found is not None and key in (None, found):
                reached[found] = (*reached.get(found, ()), number)
    return reached


def _stamp(seen: Seen) -> int:
    assert seen.timestamp_ms is not None  # noqa: S101  # set by recorded
    return seen.timestamp_ms


def recorded(name: str, events: object) -> list[Seen]:
    """Returns the events of a rehearsal with their stamps. Raises ConditionError for anything else.

    name: the call, for the message.
    """
    if isinstance(events, (Event, Seen, str, bytes, Mapping)) or not isinstance(events, Iterable):
        raise ConditionError(f"{name}(events) is of type {type(events).__name__}: give a list of events")
    return [_one_recorded(name, number, given) for number, given in enumerate(events, 1)]


def _one_recorded(name: str, number: int, given: object) -> Seen:
    seen: object = given
    if isinstance(given, Event):
        seen = Seen(given)
    elif isinstance(given, tuple) and not isinstance(given, Seen) and len(given) == 2:
        event, recorded = given
        seen = Seen(event, timestamp_ms=moment_of(f"{name}(events): item {number} (recorded=", recorded))
    if not isinstance(seen, Seen) or not isinstance(seen.event, Event):
        raise ConditionError(
            f"{name}(events): item {number} is of type {type(given).__name__}: give an Event, (Event, when it"
            " was recorded), or Seen"
        )
    stamp: object = seen.timestamp_ms
    if stamp is None:
        time = seen.event.time
        if time is None:
            raise ConditionError(
                f"event {seen.event.id!r} has no time: give each event of a rehearsal one, or say when it was"
                " recorded, (event, moment)"
            )
        return seen._replace(timestamp_ms=(time - _EPOCH) // _MILLISECOND)
    if not isinstance(stamp, int) or isinstance(stamp, bool):
        raise ConditionError(
            f"{name}(events): item {number} is a Seen whose timestamp_ms is of type {type(stamp).__name__}:"
            " give whole milliseconds since the epoch"
        )
    return seen
