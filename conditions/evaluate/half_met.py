"""What the state of an unmet condition holds: the events so far, the missing matchers, the due times."""

from __future__ import annotations

from dataclasses import dataclass

from ..nodes.condition import Condition
from .firing import Part
from .run import Run
from .state import State


@dataclass(frozen=True)
class HalfMet:
    """The state of a key whose condition is not met yet.

    parts: the held events with the labels of their matchers, in the order T3. waiting: how many more matches
    wait for a due time or for their turn (W1, W5). missing: labels of the matchers without enough events
    (X8). since_ms: the earliest stamp, or when the timers started. expires_ms: when the key expires; due_ms:
    the next time at which a timer may fire; None if there is none.
    """

    parts: tuple[Part, ...]
    waiting: int
    missing: tuple[str, ...]
    since_ms: int
    expires_ms: int | None
    due_ms: int | None


def half_met(condition: Condition, state: State) -> HalfMet | None:
    """The held part of a condition for one key; None if no event is held and no timer may fire.

    With None the state may still have `armed_ms`, if its `expires(at=)` had passed (X3).
    """
    began = [match.timestamp_ms for match in (*state.matches, *state.waiting)]
    timers = (state.opened_ms, state.armed_ms, *state.timer_starts.values())
    began += [time for time in timers if time is not None]
    if not began:
        return None
    plan = condition.plan
    run = Run(plan, state)
    due_ms = run.due_ms()
    if due_ms is None and not (state.matches or state.waiting):
        return None
    partial = plan.root.partial(run.view())
    return HalfMet(
        tuple(Part(plan.labels[number], match) for match in state.matches for number in match.matchers),
        len(state.waiting),
        tuple(plan.labels[number] for number in sorted(partial.missing)),
        min(began),
        run.expiry_ms() if plan.expires else None,
        due_ms,
    )
