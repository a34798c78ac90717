"""What a state that has not fired holds: the parts that are there, those that are missing, and until when."""

from __future__ import annotations

from dataclasses import dataclass

from ..nodes.condition import Condition
from .firing import Part
from .run import Run
from .state import State


@dataclass(frozen=True)
class HalfMet:
    """A key whose condition is not met yet.

    parts: the events that it holds, with the labels of their matchers, in the order T3. waiting: how many
    more a due time, or an order, holds back (W1, W5). missing: labels of the parts that are not there (X8).
    since_ms: the earliest stamp of what it holds, or when its timers began. expires_ms: when it expires;
    due_ms: the next time at which a timer may fire. None: no such time.
    """

    parts: tuple[Part, ...]
    waiting: int
    missing: tuple[str, ...]
    since_ms: int
    expires_ms: int | None
    due_ms: int | None


def half_met(condition: Condition, state: State) -> HalfMet | None:
    """What the state of a key holds; None where nothing can come of it but what new events begin."""
    began = [match.timestamp_ms for match in (*state.matches, *state.waiting)]
    began += [time for time in (state.opened_ms, state.armed_ms, *state.came.values()) if time is not None]
    if not began:
        return None
    plan = condition.plan
    run = Run(plan, state)
    partial = plan.root.partial(run.view())
    return HalfMet(
        tuple(Part(plan.labels[number], match) for match in state.matches for number in match.matchers),
        len(state.waiting),
        tuple(plan.labels[number] for number in sorted(partial.missing)),
        min(began),
        run.expiry_ms() if plan.expires else None,
        run.due_ms(),
    )
