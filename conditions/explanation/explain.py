"""`explain`: which events a state holds, what is missing and why, and how much time is left.

Pure: it reads a state and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from ...events.attributes import shown
from ...events.event import Event
from ..errors import ConditionError
from ..evaluate.plan import Plan
from ..evaluate.run import Run
from ..evaluate.state import Match, State
from ..nodes.condition import Condition, not_a_condition
from ..nodes.key import canonical_key
from ..nodes.timers import moment_ms
from .explanation import Explanation
from .matcher_search import Holder, MissingMatcher, StateFacts
from .node import MAX_EVENTS, Explained, Note
from .records import Record, Seen, WasRead, readable, reference
from .refutation import refutations
from .scope import Scope
from .search import search
from .tree import Explainer

MAX_NEAR_MISSES: Final = 5
# Larger numbers are not accepted as times: a sum of two of these in microseconds still fits 64 bits.
_MAX_MS: Final = 2**48


def explain(
    condition: Condition,
    state: State,
    now: int | datetime | str,
    events: Iterable[Event | Record] = (),
    key: str | None = None,
    *,
    near_misses: int = MAX_NEAR_MISSES,
    fired: Mapping[tuple[str, str], str] | None = None,
    was_read: WasRead | None = None,
) -> Explanation:
    """Why a state has not fired as of `now`: as data, and as text by `str()`.

    now: ms since the epoch, an aware datetime, or its ISO 8601 text.
    events: recent events, latest first, to search for near misses of the missing matchers: Event, Seen,
        Match, or any object with `event` and, if known, `topic`, `partition`, `offset`, `timestamp_ms`. The
        search ends at 10,000 events, or earlier if they are costly to evaluate; the result says so.
    key: the key of the state; None: read from the events that it holds.
    near_misses: the most to return for each matcher; at most two of them are of other keys, and two of events
        that counted before.
    fired: {(source, id): a text for the firing in which the event took part, "" if it is not known which}, of
        events that no longer count and that the state may have forgotten.
    was_read: whether an event was read, and the state has processed its matches; None if unknown.

    The state is shown as it is: a timer that is due, but whose tick has not come, is shown as due. Raises
    ConditionError for arguments of the wrong kind; leaves out what is unusable in a state or in the events.
    """
    now_ms = _checked(condition, state, now, events, key, near_misses)
    try:
        plan = condition.plan
    except ConditionError as error:
        tree = Explained("unusable", str(condition)[:200], False, notes=(Note("unusable", text=str(error)),))
        return Explanation(now_ms, key, False, (), tree)
    state = _usable(state, plan)
    run = Run(plan, state)
    for number, pool in enumerate(run.pools):
        pool.sort(key=lambda match: match.rank)
        del pool[: max(0, len(pool) - plan.capacities[number])]
    view = run.view()
    own = _own_key(condition, state, key)
    tree = Explainer(condition, run, now_ms, own).explained(condition, Scope(view))
    partial = plan.root.partial(view)
    missing = [plan.labels[number] for number in sorted(partial.missing)]
    facts = _facts_of(state, plan, run)._replace(key=own, fired=fired or {}, was_read=was_read)
    searched = search(
        _missing_matchers(condition, run, {*tree.missing(), *missing}), events, facts, near_misses
    )
    due = run.due_ms()
    return Explanation(
        now_ms,
        own,
        plan.root.met(view) is not None,
        tuple(missing),
        tree,
        due_ms=due,
        waiting=tuple(map(reference, state.waiting[:MAX_EVENTS])),
        waiting_count=len(state.waiting),
        waiting_until_ms=None if plan.ordered else due,
        dropped=state.dropped,
        near_misses=searched.near_misses,
        looked_at=searched.looked_at,
        complete=searched.complete,
        unreadable=searched.unreadable,
    )


def _missing_matchers(condition: Condition, run: Run, labels: Collection[str]) -> list[MissingMatcher]:
    """The matchers of these labels, each with the events that it holds."""
    named = zip(run.plan.labels, condition.matchers, run.pools, strict=True)
    return [
        MissingMatcher(
            label,
            matcher,
            {match.identity: match for match in pool},
            condition.distinct_paths.get(number),
            refutations(run.plan, number, run.view().negated_times),
        )
        for number, (label, matcher, pool) in enumerate(named)
        if label in labels
    ]


def _facts_of(state: State, plan: Plan, run: Run) -> StateFacts:
    """What the state itself says of the events that it has seen, holds, or lets wait."""
    return StateFacts(
        since_ms=state.since_ms,
        seen=state.seen,
        last_ms=state.last_ms,
        waiting={match.identity: match for match in state.waiting},
        held={
            match.identity: Holder(label, match)
            for label, pool in zip(plan.labels, run.pools, strict=True)
            for match in pool
        },
    )


def moment_of(where: str, value: object) -> int:
    """Milliseconds since the epoch of an aware datetime or its ISO 8601 text.

    where: the start of error messages, such as "explain(now=".
    """
    try:
        return moment_ms(value)  # type: ignore[arg-type]  # checked there
    except ConditionError as error:
        raise ConditionError(str(error).replace("expires(at=", where, 1)) from error


def _checked(
    condition: object, state: object, now: object, events: object, key: object, near_misses: object
) -> int:
    """`now` in milliseconds; raises ConditionError for arguments of the wrong kind."""
    if not isinstance(condition, Condition):
        raise ConditionError(not_a_condition("argument 1 of explain", condition))
    if not isinstance(state, State):
        raise ConditionError(
            f"explain(state) is of type {type(state).__name__}: give what step() or opened()"
            " returned, or EMPTY"
        )
    if isinstance(events, (Event, Seen)) or not isinstance(events, Iterable):
        raise ConditionError(f"explain(events) is of type {type(events).__name__}: give a list of events")
    if key is not None and not isinstance(key, str):
        raise ConditionError(f"explain(key={shown(key)}): give its text, canonical_key(...)")
    if not isinstance(near_misses, int) or isinstance(near_misses, bool) or near_misses < 0:
        raise ConditionError(f"explain(near_misses={shown(near_misses)}): give a whole number, 0 for none")
    if isinstance(now, int) and not isinstance(now, bool):
        return now
    if not isinstance(now, (datetime, str)):
        raise ConditionError(
            f"explain(now=) is of type {type(now).__name__}: give an aware datetime, or whole milliseconds"
            " since the epoch"
        )
    return moment_of("explain(now=", now)


def _usable(state: State, plan: Plan) -> State:
    """The state without what `step` cannot have written, such as malformed events and unknown matchers."""
    matchers = len(plan.capacities)
    return msgspec.structs.replace(
        state,
        matches=_usable_matches(state.matches, matchers),
        waiting=_usable_matches(state.waiting, matchers),
        seen=state.seen if isinstance(state.seen, bytes) else b"",
        last_ms=_time(state.last_ms),
        clock_ms=_time(state.clock_ms),
        since_ms=_time(state.since_ms),
        opened_ms=_time(state.opened_ms),
        armed_ms=_time(state.armed_ms),
        timer_starts={index: time for index, time in state.timer_starts.items() if _time(time) is not None},
        negated_times={
            number: times for number, times in state.negated_times.items() if number in plan.negated
        },
    )


def _usable_matches(matches: Iterable[Match], matchers: int) -> tuple[Match, ...]:
    usable = []
    for match in matches:
        numbers = tuple(sorted({number for number in match.matchers if 0 <= number < matchers}))
        if numbers and readable(match) is not None and _time(match.timestamp_ms) is not None:
            usable.append(msgspec.structs.replace(match, matchers=numbers))
    return tuple(usable)


def _time(ms: int | None) -> int | None:
    return ms if isinstance(ms, int) and abs(ms) <= _MAX_MS else None


def _own_key(condition: Condition, state: State, key: str | None) -> str | None:
    """The key in canonical form: the one given, else that of a held event."""
    if key is not None:
        try:
            return canonical_key(key)
        except ConditionError:
            return key or None
    for match in (*state.matches, *state.waiting):
        for number in match.matchers:
            matcher = condition.matchers[number]
            found = None if matcher.by is None else matcher.key_of(match.event)
            if found is not None:
                return found
    return None
