"""`explain` over random conditions and states: it never fails, and agrees with `step` and the plan."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interlock.conditions import Condition, Explanation, Match, State, explain
from interlock.conditions.evaluate.run import Run
from interlock.conditions.explanation.node import Explained

from .generators import Case, cases, conditions
from .oracle import Tick
from .subject import first_state, stepped

relaxed = settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)


def checked(condition: Condition, state: State, case: Case, now_ms: int) -> Explanation:
    """The explanation, after writing its text and JSON."""
    seen = [given_ for given_ in case.inputs if isinstance(given_, Match)]
    explanation = explain(condition, state, now_ms, seen)
    data = json.dumps(explanation.to_json(), ensure_ascii=False, allow_nan=False)
    assert data.encode("utf-8")
    assert all(line.isprintable() for line in str(explanation).split("\n"))
    return explanation


def nodes_of(node: Explained) -> list[Explained]:
    return [node, *(below for each in node.of for below in nodes_of(each))]


@relaxed
@given(cases())
def test_an_explanation_agrees_with_the_plan(case: Case) -> None:
    """S1, X8, W1"""
    state = first_state(case)
    plan = case.condition.plan
    for given_ in case.inputs:
        state, _ = stepped(case.condition, state, given_)
        now_ms = given_.time_ms if isinstance(given_, Tick) else state.last_ms or 0
        explanation = checked(case.condition, state, case, now_ms)
        run = Run(plan, state)
        assert not explanation.met
        assert not explanation.tree.met
        missing = plan.root.partial(run.view()).missing
        assert explanation.missing == tuple(plan.labels[number] for number in sorted(missing))
        assert explanation.due_ms == run.due_ms()
        assert explanation.waiting_count == len(state.waiting)
        assert explanation.complete
        held = {match.identity for match in state.matches}
        for node in nodes_of(explanation.tree):
            assert {(each.source, each.id) for each in node.events} <= held
            assert {(each.event.source, each.event.id) for each in node.apart} <= held
            assert node.held is None or node.held <= len(state.matches)
            assert all(each.by_ms is None or each.by_ms > 0 for each in node.apart)


@relaxed
@given(cases(), cases(), st.integers(-(2**62), 2**62))
def test_a_state_of_another_condition_is_explained_too(case: Case, other: Case, now_ms: int) -> None:
    state = first_state(case)
    for given_ in case.inputs:
        state, _ = stepped(case.condition, state, given_)
    checked(other.condition, state, case, now_ms)


@relaxed
@given(conditions(), st.binary(max_size=600), st.integers(), st.lists(st.integers(), max_size=9))
def test_a_state_with_any_numbers_is_explained_too(
    condition: Condition, seen: bytes, time: int, numbers: list[int]
) -> None:
    times = dict.fromkeys(("last_ms", "clock_ms", "since_ms", "opened_ms", "armed_ms", "dropped"), time)
    negated = dict.fromkeys(numbers, tuple(sorted(numbers)))
    state = State(seen=seen, timer_starts=dict.fromkeys(numbers, time), negated_times=negated, **times)
    checked(condition, state, Case(condition, None, ()), time)
