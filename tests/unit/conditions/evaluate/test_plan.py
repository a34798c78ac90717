"""Properties of a plan, and how many events each matcher holds: docs/use/conditions.md."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from interlock.conditions import (
    AllOf,
    Condition,
    ConditionError,
    absent,
    at_least,
    count,
    event,
    not_followed_by,
    rehearse,
    sequence,  # fmt: skip
)
from interlock.conditions.evaluate.plan import MAX_COST
from interlock.events import Event

from tests.unit.conditions.timeline import timeline

a, b, c, d = (event(letter, label=letter) for letter in "abcd")


@pytest.mark.parametrize(
    ("condition", "needs_ticks", "merge_independent"),
    [
        (a, False, True),
        (a | b, False, True),
        (a & b, False, False),
        (a | (b & c), False, False),
        (at_least(2, a, b, c), False, False),
        (count(a, 2), False, False),
        (sequence(a, b, ordered=False), False, False),
        (sequence(a, b), True, True),
        (sequence(a, b) | c, True, True),
        ((a & b).within("1h"), False, False),
        ((a & b).resets("@daily"), False, False),
        ((sequence(a, b) & c).within("1h"), True, True),
        ((a & ~b).within("1h"), True, False),
        ((a & ~b).resets("@daily") | absent(a, "1h"), True, False),
        ((a & ~b).within("1h") | c, True, False),
        (absent(a, "10m"), True, False),
        (absent(a, "10m") & b, True, False),
        (absent(a, "10m") | b, True, False),
        (a.quiet("5m"), True, False),
        ((a & b).quiet("5m") | c.quiet("1m"), True, False),
        (a.quiet("5m") & b, True, False),
        ((a & b).ordered(), True, True),
        ((a & b).expires(after="1h"), True, False),
        ((a & b).ordered().expires(after="1h"), True, True),
        (a.expires(after="1h"), True, False),
        ((a | b).expires(at="2026-11-20T06:00:00Z"), True, False),
    ],
    ids=str,
)
def test_a_condition_says_whether_time_and_the_order_of_arrival_matter(
    condition: Condition, needs_ticks: bool, merge_independent: bool
) -> None:
    """V3, W5"""
    assert (condition.needs_ticks, condition.merge_independent) == (needs_ticks, merge_independent)


WINDOW_CAPACITY = 16


def events(letter: str, n: int) -> str:
    return "  ".join(f"{letter}{number:03}" for number in range(1, n + 1))


@pytest.mark.parametrize(
    ("condition", "room"),
    [
        ("a & b", 1),
        ("count(a, 3) & b", 3),
        ("(count(a, 3) & b) | (a & c)", 3),
        ("at_least(2, count(a, 4), b, c)", 4),
        ("absent(a, '1d') & b", 1),
        ("(a & b).within('1d')", WINDOW_CAPACITY),
        ("(count(a, 20) & b).within('1d')", 20),
        ("(a & b).resets('@daily')", WINDOW_CAPACITY),
        ("sequence(b, a, ordered=False)", WINDOW_CAPACITY),
        ("sequence(b, count(a, 9), count(a, 8), ordered=False)", 17),
        ("(a & b).within('1d') | (a & c)", WINDOW_CAPACITY),
        ("(b & c).within('1d') & a", 1),
        ("(a & b).keep('all', 40)", 40),
        ("(count(a, 30) & b).within('1d').keep('all', 40)", 40),
    ],
)
def test_a_matcher_holds_as_many_events_as_a_firing_can_take(condition: str, room: int) -> None:
    """H1, H3"""
    left = events("a", 50).split()[-room:]
    timeline(f"{condition}:   {events('a', 50)}   {{{' '.join(left)}}}")


def test_first_holds_the_earliest() -> None:
    """H2"""
    left = " ".join(events("a", WINDOW_CAPACITY).split())
    timeline(f"(a & b).within('1d').keep('first'):   {events('a', 50)}   {{{left}}}")


START = datetime(2026, 11, 20, tzinfo=UTC)


def sent(letter: str, second: int) -> Event:
    return Event.of(letter, "/s", id=f"{letter}{second}", time=START + timedelta(seconds=second))


def test_first_in_a_later_step_of_a_sequence_is_filled_for_good_by_events_before_the_first_step() -> None:
    """H2"""
    early = [sent("b", n) for n in range(WINDOW_CAPACITY)]
    later = [sent(letter, 100 + 2 * n + k) for n in range(20) for k, letter in enumerate("ab")]
    first = sequence(a, event("b", label="b", keep="first"))
    assert rehearse(first, early + later) == []
    assert len(rehearse(first, early[1:] + later)) == 20
    for other in (sequence(a, b), sequence(a, b).keep("all"), sequence(a.keep("first"), b)):
        assert len(rehearse(other, early + later)) == 20
    assert len(rehearse(sequence(a, b).within("50s", lateness="0s").keep("first"), early + later)) == 20


@pytest.mark.parametrize("limit", [WINDOW_CAPACITY, 20, 21])
def test_openers_that_come_too_often_need_a_larger_limit_to_fire(limit: int) -> None:
    """E3: within 20 s, both ends included, 21 come."""
    often = [sent("a", n) for n in range(100)]
    until = START + timedelta(seconds=99)
    for condition in (
        not_followed_by(event("a", keep="all", limit=limit), b, "20s"),
        not_followed_by(a, b, "20s").keep("all", limit),
    ):
        assert len(rehearse(condition, often, until=until)) == (79 if limit == 21 else 0)
    assert rehearse(not_followed_by(a, b, "20s"), often, until=until) == []
    assert len(rehearse(not_followed_by(a, b, "20s"), often[::2], until=until)) == 40


def test_a_matcher_that_is_only_negated_holds_no_events() -> None:
    """E8"""
    timeline(f"(a & ~b).within('1d'):   {events('b', 50)}   {{}}")


def test_nested_windows_over_many_matchers_are_refused_for_their_cost() -> None:
    many = [event(f"t{n}") for n in range(60)]
    dear = ((AllOf(*many).within("1h") & a).within("2h") & b).within("3h")
    for use in (dear.check, lambda: dear.check_key(False), lambda: dear.plan):
        with pytest.raises(ConditionError, match=rf"windows: at most {MAX_COST}; nest fewer"):
            use()
    AllOf(*many).within("1h").check()
    assert ((((a & b).within("1h") & c).within("2h")) & d).within("3h").plan


def test_a_plan_is_made_once() -> None:
    condition = (a & b).within("1h")
    assert condition.plan is condition.plan
