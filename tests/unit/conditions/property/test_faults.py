"""Faults planted in `step`: the comparison with the oracle finds each within a limited number of cases."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from interlock.conditions import Match
from interlock.conditions.evaluate import evaluation, slots
from interlock.conditions.evaluate import run as running
from interlock.conditions.evaluate.evaluation import CombinationNode, MatcherNode
from interlock.conditions.evaluate.plan import Plan
from interlock.conditions.evaluate.run import Run
from interlock.conditions.evaluate.state import State
from interlock.conditions.evaluate.view import Found
from interlock.conditions.evaluate.windowing import NegatedWindowNode, WindowNode

from . import subject
from .generators import Case, cases, crowded_cases
from .runs import examples
from .test_step_against_oracle import compare

# The same cases as without a fault; a fault that they do not show would not be found in CI either.
MOST = 4_000
STEP = sys.modules["interlock.conditions.evaluate.step"]  # the package has a function of its name
Patch = pytest.MonkeyPatch


def assert_found(strategy: Any = None, most: int = MOST) -> None:
    """Asserts that the property fails by a difference from the oracle."""

    @settings(examples(most), max_examples=most, derandomize=True, phases=(Phase.generate,))
    @given(cases() if strategy is None else strategy)
    def check(case: Case) -> None:
        compare(case)

    with pytest.raises(AssertionError):
        check()


def replan(patch: Patch, change: Callable[[Plan], dict[str, object]]) -> None:
    """Makes `step` use a changed plan."""

    class Replanned(Run):
        def __init__(self, plan: Plan, state: State) -> None:
            super().__init__(dataclasses.replace(plan, **change(plan)), state)

    patch.setattr(STEP, "Run", Replanned)


def test_without_a_fault_the_same_cases_agree() -> None:
    with pytest.raises(pytest.fail.Exception):
        assert_found(most=300)


def test_a_window_that_leaves_out_its_bound_is_found(monkeypatch: Patch) -> None:
    """I1"""
    bounds = WindowNode.bounds

    def faulty(self: WindowNode, time_us: int, ends: bool) -> tuple[int, int]:
        low, high = bounds(self, time_us, ends)
        return (low + 1, high) if ends else (low, high - 1)

    monkeypatch.setattr(WindowNode, "bounds", faulty)
    assert_found()


def test_events_forgotten_as_seen_by_a_firing_are_found(monkeypatch: Patch) -> None:
    """D1"""
    consume = Run.consume

    def faulty(self: Run, found: Found) -> None:
        consume(self, found)
        self.seen = b""

    monkeypatch.setattr(Run, "consume", faulty)
    assert_found()


def test_passed_by_events_that_stay_are_found(monkeypatch: Patch) -> None:
    """I7"""
    replan(monkeypatch, lambda plan: {"drops_earlier": tuple(False for _ in plan.drops_earlier)})
    assert_found()


def test_a_last_branch_that_goes_before_the_first_is_found(monkeypatch: Patch) -> None:
    """O2"""
    met = CombinationNode.met

    def faulty(self: CombinationNode, view: evaluation.View) -> Found | None:
        if self.need > 1:
            return met(self, view)
        return next((found for node in reversed(self.of) if (found := node.met(view)) is not None), None)

    monkeypatch.setattr(CombinationNode, "met", faulty)
    assert_found()


def test_an_expiry_that_comes_before_a_condition_met_at_its_time_is_found(monkeypatch: Patch) -> None:
    """X6"""
    judge = Run.evaluate_at

    def faulty(self: Run, due_ms: int) -> None:
        expiry = self.expiry_ms() if self.plan.expires else None
        if expiry is not None and expiry <= due_ms:
            self.expire(expiry)
        judge(self, due_ms)

    monkeypatch.setattr(Run, "evaluate_at", faulty)
    assert_found()


def test_an_event_that_counts_at_the_time_of_an_expiry_is_found(monkeypatch: Patch) -> None:
    """X6, B6, U4: W1"""
    take = Run.take

    def faulty(self: Run, match: Match) -> None:
        if not self.plan.ordered and match.timestamp_ms == self.due_ms():
            self.enter(match)
            self.advance(None)
        else:
            take(self, match)

    monkeypatch.setattr(Run, "take", faulty)
    assert_found()


def test_a_negated_event_that_does_not_refute_at_the_end_is_found(monkeypatch: Patch) -> None:
    """E3, E4"""
    bounds = NegatedWindowNode.bounds

    def faulty(self: NegatedWindowNode, time_us: int) -> tuple[int, int]:
        low, high = bounds(self, time_us)
        return low, high - 1

    monkeypatch.setattr(NegatedWindowNode, "bounds", faulty)
    assert_found(cases(negated=True))


def test_a_count_that_is_met_by_one_event_less_is_found(monkeypatch: Patch) -> None:
    """Q1"""
    met = MatcherNode.met

    def faulty(self: MatcherNode, view: evaluation.View) -> Found | None:
        return met(dataclasses.replace(self, take=max(1, self.take - 1)), view)

    monkeypatch.setattr(MatcherNode, "met", faulty)
    assert_found()


def test_the_earliest_events_taken_for_the_latest_are_found(monkeypatch: Patch) -> None:
    """Q2, H2, H3, I3"""
    chosen = MatcherNode.chosen

    def faulty(self: MatcherNode, events: Any, early: bool) -> evaluation.Parts:
        return chosen(dataclasses.replace(self, latest=not self.latest), events, early)

    monkeypatch.setattr(MatcherNode, "chosen", faulty)
    assert_found()


def test_an_id_without_the_due_time_is_found(monkeypatch: Patch) -> None:
    """C6, W8"""
    right = subject.firing_id
    monkeypatch.setattr(subject, "firing_id", lambda *texts: right(*texts[:-1]))
    assert_found()


def test_matches_that_wait_in_the_order_of_arrival_are_found(monkeypatch: Patch) -> None:
    """W3"""
    monkeypatch.setattr(running, "waiting_order", lambda match: 0)
    assert_found()


def test_a_timer_that_tells_the_time_of_its_tick_is_found(monkeypatch: Patch) -> None:
    """W2, W8"""
    advance, judge = Run.advance, Run.evaluate_at
    until: list[int | None] = [None]

    def faulty(self: Run, until_ms: int | None) -> None:
        until[0] = until_ms
        advance(self, until_ms)

    monkeypatch.setattr(Run, "advance", faulty)
    monkeypatch.setattr(Run, "evaluate_at", lambda self, due_ms: judge(self, until[0] or due_ms))
    assert_found()


def test_a_consumed_event_that_stays_in_other_places_is_found(monkeypatch: Patch) -> None:
    """C2"""
    consume = Run.consume

    def faulty(self: Run, found: Found) -> None:
        places = {(number, match.identity) for number, match in found.parts}
        before = [list(pool) for pool in self.pools]
        consume(self, found)
        used = {identity for _, identity in places}
        for number, pool in enumerate(before):
            kept = [m for m in pool if m.identity in used and (number, m.identity) not in places]
            self.pools[number] = sorted([*self.pools[number], *kept], key=lambda match: match.rank)

    monkeypatch.setattr(Run, "consume", faulty)
    assert_found()


def test_an_expiry_that_leaves_events_pending_is_found(monkeypatch: Patch) -> None:
    """X4"""
    expire = Run.expire

    def faulty(self: Run, due_ms: int) -> None:
        pools = self.pools
        expire(self, due_ms)
        self.pools = pools

    monkeypatch.setattr(Run, "expire", faulty)
    assert_found()


def test_a_late_event_that_replaces_a_later_one_is_found(monkeypatch: Patch) -> None:
    """L2, in the fast path"""

    def faulty(matches: tuple[Match, ...], match: Match) -> tuple[tuple[Match, ...], int]:
        own = sum(1 << number for number in match.matchers)
        left = tuple(
            slots.with_matchers(held, rest)
            for held in matches
            if (rest := tuple(number for number in held.matchers if number not in match.matchers))
        )
        return left, own

    monkeypatch.setattr(slots, "displaced", faulty)
    assert_found()


def test_a_full_room_that_drops_the_wrong_end_is_found(monkeypatch: Patch) -> None:
    """H2, H3"""
    replan(monkeypatch, lambda plan: {"keeps_first": tuple(not first for first in plan.keeps_first)})
    assert_found(crowded_cases(17, 40), most=300)


def test_times_of_negated_events_that_are_forgotten_are_found(monkeypatch: Patch) -> None:
    """E8"""
    monkeypatch.setattr(NegatedWindowNode, "redundant", lambda self, earlier_us, later_us: True)
    assert_found(cases(negated=True))


def test_a_period_that_takes_in_the_next_ones_beginning_is_found(monkeypatch: Patch) -> None:
    """R1"""
    bounds = WindowNode.bounds

    def faulty(self: WindowNode, time_us: int, ends: bool) -> tuple[int, int]:
        low, high = bounds(self, time_us, ends)
        return (low, high) if self.periods is None else (low, high + 1)

    monkeypatch.setattr(WindowNode, "bounds", faulty)
    assert_found()
