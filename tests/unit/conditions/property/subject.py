"""`step` as the oracle's twin: the same inputs, its firings in the oracle's form."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.conditions import EMPTY, Condition, Firing, Match, State, firing_id, opened, step
from interlock.conditions import Cancel as CancelInput
from interlock.conditions import Tick as TickInput

from .choices import Identity
from .generators import Case
from .oracle import Cancel, Fired, Tick

INCARNATION, KEY = "incarnation", "2026-11-20"


def first_state(case: Case) -> State:
    if case.opened is None:
        return EMPTY
    return opened(case.condition, case.opened.at_ms, case.opened.since_ms)


def stepped(
    condition: Condition, state: State, given: Match | Tick | Cancel
) -> tuple[State, tuple[Firing, ...]]:
    if isinstance(given, Tick):
        return step(condition, state, TickInput(given.time_ms))
    if isinstance(given, Cancel):
        return step(condition, state, CancelInput())
    return step(condition, state, given)


def folded(
    condition: Condition, state: State, inputs: Iterable[Match | Tick | Cancel]
) -> tuple[State, list[Firing]]:
    fired: list[Firing] = []
    for given in inputs:
        state, firings = stepped(condition, state, given)
        fired += firings
    return state, fired


def shown(firing: Firing) -> Fired:
    parts = tuple((part.label, *part.match.identity) for part in firing.taking_part)
    return Fired(firing.outcome, parts, firing.missing, firing.timer_ms)


def id_of(firing: Firing) -> str:
    return firing_id(INCARNATION, KEY, firing.outcome, firing.taking_part, firing.timer_ms)


def held_identities(state: State) -> dict[int, list[Identity]]:
    return {number: [match.identity for match in matches] for number, matches in state.held.items()}
