"""What the state of an unmet condition holds."""

from __future__ import annotations

import pytest
from interlock.conditions import EMPTY, Condition, Match, State, absent, event, opened, step
from interlock.conditions.evaluate.half_met import half_met
from interlock.events import Event

A, B = event("a", label="a"), event("b", label="b")


def after(condition: Condition, *stamps: int) -> State:
    """The state after events of type a with these stamps."""
    number_of_a = condition.matchers.index(A)
    state = EMPTY
    for number, stamp in enumerate(stamps):
        happened = Event.of("a", "/s", id=str(number))
        state, _ = step(condition, state, Match(happened, (number_of_a,), "t", 0, number, stamp))
    return state


def test_half_met_lists_held_events_missing_labels_and_the_expiry() -> None:
    condition = (A & B).expires(after="1s")
    found = half_met(condition, after(condition, 500))
    assert found is not None
    assert [(part.label, part.match.offset) for part in found.parts] == [("a", 0)]
    assert (found.missing, found.waiting) == (("b",), 0)
    assert (found.since_ms, found.expires_ms, found.due_ms) == (500, 1500, 1500)


def test_matches_that_wait_for_a_due_time_are_counted() -> None:
    condition = absent(A, "1s")
    found = half_met(condition, after(condition, 0, 1500, 1600))
    assert found is not None
    assert (len(found.parts), found.waiting, found.missing, found.due_ms) == (1, 2, (), 1000)


def test_a_wait_whose_timers_run_is_half_met_before_any_event() -> None:
    condition = (A & B).expires(after="1s")
    found = half_met(condition, opened(condition, 7))
    assert found is not None
    assert (found.parts, found.missing, found.since_ms, found.due_ms) == ((), ("a", "b"), 7, 1007)


@pytest.mark.parametrize(
    ("condition", "stamps"),
    [
        pytest.param(A & B, (), id="nothing came"),
        pytest.param(A | B, (1,), id="all is consumed, and remembered only"),
        pytest.param((B & ~A).within("1h"), (1,), id="times of negated events only"),
    ],
)
def test_a_state_that_nothing_can_come_of_is_not_half_met(
    condition: Condition, stamps: tuple[int, ...]
) -> None:
    state = after(condition, *stamps)
    assert bool(state.negated_times) == (condition.matchers[0] == B)
    assert half_met(condition, state) is None
