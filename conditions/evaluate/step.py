"""`step`: how an input changes the state of a key, and what fires; and the times at which a tick is needed.

Pure: no clock, no I/O, equal arguments give equal results. Cases cited: docs/use/conditions.md.
"""

from __future__ import annotations

import msgspec

from ..errors import ConditionError
from ..nodes.condition import Condition
from .firing import Firing
from .run import Run, expiry_ms
from .slots import step_slots
from .state import EMPTY, Match, State


class Tick(msgspec.Struct, frozen=True):
    """The promise that no further match stamped before `time_ms` arrives for this key (W2)."""

    time_ms: int


class Cancel(msgspec.Struct, frozen=True):
    """The subscription has ended: its state becomes empty (W9)."""


def step(
    condition: Condition,
    state: State,
    input: Match | Tick | Cancel,  # noqa: A002  # the word of docs/use/conditions.md
) -> tuple[State, tuple[Firing, ...]]:
    """The state after an input, and the firings in order.

    state: of the same condition and key; EMPTY or `opened()` at first. input: pass each match once, with
    the numbers of all matchers that accepted the event for this key. Raises ConditionError for a matcher
    number that the condition does not have.
    """
    plan = condition.plan
    if isinstance(input, Match):
        numbers = input.matchers
        if not numbers or not plan.numbers.issuperset(numbers):
            raise ConditionError(
                f"a match names matchers {numbers}: the condition has {len(plan.capacities)}"
            )
        if state.since_ms is not None and input.timestamp_ms < state.since_ms:  # Y1
            return state, ()
        if plan.masks:
            return step_slots(plan, state, input)
        run = Run(plan, state)
        run.take(input)
        return run.result()
    if isinstance(input, Tick):
        run = Run(plan, state)
        run.tick(input.time_ms)
        return run.result()
    if isinstance(input, Cancel):
        return EMPTY, ()
    raise ConditionError(
        f"step got a {type(input).__name__}: its inputs are Match (which holds an Event), Tick and Cancel"
    )


def opened(condition: Condition, at_ms: int, since_ms: int | None = None) -> State:
    """The first state of a wait for one known key: its timers run from `at_ms`.

    since_ms: matches stamped before it do not count (Y1); None: all count.
    """
    plan = condition.plan
    return State(
        since_ms=since_ms,
        opened_ms=at_ms if plan.expires and not plan.expires_by_event else None,
        timer_starts=dict.fromkeys(plan.armed_at_start, at_ms),
    )


def next_wakeup(condition: Condition, state: State) -> int | None:
    """The time of the next tick that changes the state, ms since the epoch; None: no tick does.

    This is the earliest due time, or the earliest time at which something held or remembered is released.
    """
    run = Run(condition.plan, state)
    times = [*run.release_times()]
    due = run.due_ms()
    if due is not None:
        times.append(due)
    if run.plan.ordered and state.waiting:
        times.append(state.waiting[0].timestamp_ms + 1)
    return min(times, default=None)


def next_due(condition: Condition, state: State) -> int | None:
    """The time of the next tick that may fire, ms since the epoch; None: no tick fires.

    It is never earlier than `next_wakeup`, which also counts releases. Ticks at other
    times do not change what fires (W2, W7).
    """
    plan = condition.plan
    if not plan.timed:
        return None
    if plan.ordered:
        due = Run(plan, state).due_ms() if plan.has_due_times else None
        first = state.waiting[0].timestamp_ms + 1 if state.waiting else None
        return due if first is None else first if due is None else min(first, due)
    if plan.timer_matchers or plan.negated:
        return Run(plan, state).due_ms()
    return expiry_ms(plan, state.opened_ms, state.armed_ms)  # there is no other timer: no Run is needed


def closes_at(condition: Condition, state: State, ttl_ms: int) -> int | None:
    """When the state may be removed, ms since the epoch (Z1); None for a state that holds nothing.

    If a match waits or a due time comes before then, call it again after that tick. ttl_ms: how long the bus
    keeps a state that only the ttl ends, counted from its last stamp or due time.
    """
    run = Run(condition.plan, state)
    dues = [*run.due_times()]
    known = [*dues, *([] if state.last_ms is None else [state.last_ms])]
    known += [match.timestamp_ms for match in state.waiting]
    known += state.timer_starts.values()
    if not known:
        return None
    latest = max(known) + ttl_ms
    if run.held_until_ttl():
        return latest
    ends = [*run.release_times(every=True), *(due + 1 for due in dues)]
    ends += [match.timestamp_ms + 1 for match in state.waiting]
    return min(latest, max(ends))
