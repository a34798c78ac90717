"""Faults planted in `step`: the comparison with the oracle finds each within a limited number of cases."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from functools import partial, partialmethod
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
from .generators import ANY, EXPIRING, NEGATED, PERIODIC, SLOTS, WINDOWED, Case, cases, crowded_cases
from .runs import examples
from .test_step_against_oracle import compare

# Most faults show within 1,000 cases. Hypothesis takes constants from the modules that are imported, so the
# cases are others when all tests run.
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


FAULTS: dict[str, tuple[object, str, Callable[..., Any], Any]] = {}


def fault(owner: object, name: str, strategy: Any = None) -> Callable[[Callable[..., Any]], None]:
    """Plants the decorated function, which gets the method of this name before the method's arguments.

    strategy: of cases that show the fault; by default all.
    """

    def register(planted: Callable[..., Any]) -> None:
        what = planted.__name__.replace("_", " ")
        FAULTS[what] = (owner, name, partial(planted, getattr(owner, name)), strategy)

    return register


def replan(patch: Patch, change: Callable[[Plan], dict[str, object]]) -> None:
    """Makes `step` use a changed plan."""

    class Replanned(Run):
        def __init__(self, plan: Plan, state: State) -> None:
            super().__init__(dataclasses.replace(plan, **change(plan)), state)

    patch.setattr(STEP, "Run", Replanned)


def test_without_a_fault_the_same_cases_agree() -> None:
    with pytest.raises(pytest.fail.Exception):
        assert_found(most=100)


@fault(WindowNode, "bounds", cases(among=WINDOWED))
def a_window_that_leaves_out_its_bound(
    right: Any, self: WindowNode, time_us: int, ends: bool
) -> tuple[int, int]:
    """I1"""
    low, high = right(self, time_us, ends)
    return (low + 1, high) if ends else (low, high - 1)


@fault(Run, "consume")
def events_forgotten_as_seen_by_a_firing(right: Any, self: Run, found: Found) -> None:
    """D1"""
    right(self, found)
    self.seen = b""


@fault(Run, "consume")
def events_that_a_firing_drops_though_it_does_not_take_them(right: Any, self: Run, found: Found) -> None:
    """C3, I7"""
    right(self, found)
    self.pools = [[] for _ in self.pools]


@fault(CombinationNode, "met", cases(among=ANY))
def a_last_branch_that_goes_before_the_first(
    right: Any, self: CombinationNode, view: evaluation.View
) -> Found | None:
    """O2"""
    if self.need > 1:
        return right(self, view)  # type: ignore[no-any-return]
    return next((found for node in reversed(self.of) if (found := node.met(view)) is not None), None)


@fault(Run, "evaluate_at", cases(among=EXPIRING))
def an_expiry_that_comes_before_a_condition_met_at_its_time(right: Any, self: Run, due_ms: int) -> None:
    """X6"""
    expiry = self.expiry_ms() if self.plan.expires else None
    if expiry is not None and expiry <= due_ms:
        self.expire(expiry)
    right(self, due_ms)


@fault(Run, "take")
def an_event_that_counts_at_the_time_of_an_expiry(right: Any, self: Run, match: Match) -> None:
    """X6, B6, U4: W1"""
    if not self.plan.ordered and match.timestamp_ms == self.due_ms():
        self.enter(match)
        self.advance(None)
    else:
        right(self, match)


@fault(NegatedWindowNode, "bounds", cases(among=NEGATED))
def a_negated_event_that_does_not_refute_at_the_end(
    right: Any, self: NegatedWindowNode, time_us: int
) -> tuple[int, int]:
    """E3, E4"""
    low, high = right(self, time_us)
    return low, high - 1


@fault(MatcherNode, "met")
def a_count_that_is_met_by_one_event_less(right: Any, self: MatcherNode, view: evaluation.View) -> Any:
    """Q1"""
    return right(dataclasses.replace(self, take=max(1, self.take - 1)), view)


@fault(MatcherNode, "chosen")
def the_earliest_events_taken_for_the_latest(right: Any, self: MatcherNode, events: Any, early: bool) -> Any:
    """Q2, H2, H3, I3"""
    return right(dataclasses.replace(self, latest=not self.latest), events, early)


@fault(subject, "firing_id")
def an_id_without_the_due_time(right: Any, *texts: Any) -> Any:
    """C6, W8"""
    return right(*texts[:-1])


@fault(running, "waiting_order")
def matches_that_wait_in_the_order_of_arrival(right: Any, match: Match) -> int:
    """W3"""
    return 0


@fault(Run, "consume")
def a_consumed_event_that_stays_in_other_places(right: Any, self: Run, found: Found) -> None:
    """C2"""
    places = {(number, match.identity) for number, match in found.parts}
    before = [list(pool) for pool in self.pools]
    right(self, found)
    used = {identity for _, identity in places}
    for number, pool in enumerate(before):
        kept = [m for m in pool if m.identity in used and (number, m.identity) not in places]
        self.pools[number] = sorted([*self.pools[number], *kept], key=lambda match: match.rank)


@fault(Run, "expire")
def an_expiry_that_leaves_events_pending(right: Any, self: Run, due_ms: int) -> None:
    """X4"""
    pools = self.pools
    right(self, due_ms)
    self.pools = pools


@fault(slots, "displaced", cases(among=SLOTS))
def a_late_event_that_replaces_a_later_one(
    right: Any, matches: tuple[Match, ...], match: Match
) -> tuple[tuple[Match, ...], int]:
    """L2, in the fast path"""
    own = sum(1 << number for number in match.matchers)
    left = tuple(
        slots.with_matchers(held, rest)
        for held in matches
        if (rest := tuple(number for number in held.matchers if number not in match.matchers))
    )
    return left, own


@fault(NegatedWindowNode, "redundant", cases(among=NEGATED))
def times_of_negated_events_that_are_forgotten(right: Any, *_: Any) -> bool:
    """E8"""
    return True


@fault(WindowNode, "bounds", cases(among=PERIODIC))
def a_period_that_takes_in_the_next_ones_beginning(
    right: Any, self: WindowNode, time_us: int, ends: bool
) -> tuple[int, int]:
    """R1"""
    low, high = right(self, time_us, ends)
    return (low, high) if self.periods is None else (low, high + 1)


@pytest.mark.parametrize(("owner", "name", "planted", "strategy"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_found(
    owner: object, name: str, planted: Callable[..., Any], strategy: Any, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(owner, name, partialmethod(planted) if isinstance(owner, type) else planted)
    assert_found(strategy)


def test_earlier_events_that_stay_after_a_firing_are_found(monkeypatch: Patch) -> None:
    """I7"""
    replan(monkeypatch, lambda plan: {"drops_earlier": tuple(False for _ in plan.drops_earlier)})
    assert_found()


def test_a_full_pool_that_drops_the_wrong_end_is_found(monkeypatch: Patch) -> None:
    """H2, H3"""
    replan(monkeypatch, lambda plan: {"keeps_first": tuple(not first for first in plan.keeps_first)})
    assert_found(crowded_cases(17, 40), most=300)


def test_a_firing_that_has_the_time_of_its_tick_is_found(monkeypatch: Patch) -> None:
    """W2, W8"""
    advance, judge = Run.advance, Run.evaluate_at
    until: list[int | None] = [None]

    def faulty(self: Run, until_ms: int | None) -> None:
        until[0] = until_ms
        advance(self, until_ms)

    monkeypatch.setattr(Run, "advance", faulty)
    monkeypatch.setattr(Run, "evaluate_at", lambda self, due_ms: judge(self, until[0] or due_ms))
    assert_found()
