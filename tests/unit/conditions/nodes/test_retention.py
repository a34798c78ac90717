"""keep() of a whole condition (H1 to H3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from interlock.conditions import Condition, ConditionError, absent, at_least, count, event, sequence

from tests.unit.conditions.timeline import cases, timeline

a, b, c = event("a"), event("b"), event("c")
first_a, first_b, first_c = (event(letter, keep="first") for letter in "abc")


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        (a, first_a),
        (a & b, first_a & first_b),
        (a | b, first_a | first_b),
        (at_least(2, a, b, c), at_least(2, first_a, first_b, first_c)),
        (count(a, 2), count(first_a, 2)),
        (sequence(a, b, ordered=False), sequence(first_a, first_b, ordered=False)),
        ((a & b).within("1h", lateness="1m"), (first_a & first_b).within("1h", lateness="1m")),
        (
            (a & b).resets("0 6 * * *", timezone="Asia/Tokyo", lateness="1m"),
            (first_a & first_b).resets("0 6 * * *", timezone="Asia/Tokyo", lateness="1m"),
        ),
        (a.quiet("5m"), first_a.quiet("5m")),
        ((a & b).ordered(), (first_a & first_b).ordered()),
        (
            (a & b).expires(after="1h", at="2026-11-20T06:00:00Z"),
            (first_a & first_b).expires(after="1h", at="2026-11-20T06:00:00Z"),
        ),
        ((a & ~b).within("1h"), (first_a & ~b).within("1h")),
        (absent(b, "10m", armed_by="subscription") & a, absent(b, "10m", armed_by="subscription") & first_a),
    ],
)
def test_keep_reaches_every_matcher_that_events_are_held_for(condition: Condition, kept: Condition) -> None:
    assert condition.keep("first") == kept


def test_keep_does_not_change_a_matcher_with_its_own() -> None:
    own = event("b", keep="latest")
    assert (a & own).keep("first") == first_a & own
    assert (a & own).keep("first").keep("all", 3) == first_a & own


def test_a_matcher_in_several_places_stays_one_matcher() -> None:
    labelled = event("b", label="b")
    condition = ((a & ~labelled).within("1h") | (labelled & c)).keep("first")
    assert condition.labels == ("a", "b", "c")
    assert [matcher.keeps for matcher in condition.matchers] == ["first"] * 3


def test_keep_leaves_everything_else_of_a_matcher_as_it_is() -> None:
    full = event("x", by="subject", label="l", where="data.n > 1", filters=[{"prefix": {"subject": "s"}}])
    kept = full.keep("all", 7)
    assert (kept.keeps, kept.limit) == ("all", 7)
    assert (kept.exact, kept.by, kept.label, kept.where, kept.filters) == (
        full.exact, full.by, full.label, full.where, full.filters,
    )  # fmt: skip
    assert a.keep("all") == event("a", keep="all") == event("a", keep="all", limit=100)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: a.keep("newest"), "give one of latest, first, all"),
        (lambda: (a & b).keep("all", 0), "give a whole number from 1 to 1000"),
        (lambda: (a & b).keep("all", 1001), "give a whole number from 1 to 1000"),
        (lambda: (a & b).keep("first", 5), 'needs keep="all"'),
        (lambda: absent(a, "1m").keep("newest"), "give one of latest, first, all"),
        (lambda: count(a, 101).keep("all"), "asks for 101 events, but the matcher holds at most 100: raise"),
    ],
)
def test_an_error_says_what_is_wrong(use: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        use()
    assert message in str(caught.value)


@pytest.mark.parametrize("line", cases("""
H2  (a & b).keep("first"):   a2(t=2)  a1(t=1)  a3(t=3)  b1 ! a1 b1   {}
H2  (a & b).keep("first"):   a1  a2  b1 ! a1 b1   b2   {b2}
H2  count(a, 2).keep("first") & b:   a1  a2  a3  b1 ! a1 a2 b1   {}
H3  (a & b).keep("all"):   a3(t=3)  a1(t=1)  a2(t=2)  b1 ! a1 b1   b2 ! a2 b2   b3 ! a3 b3   {}
H3  (a & b).keep("all", 2):   a1  a2  a3  b1 ! a2 b1   {a3}
H3  (a & b).keep("all"):   a1  a2  a1  b1 ! a1 b1   a1   {a2}
H3  (a & b).within("1h").keep("all"):   a1(0:00)  a2(0:10)  b1(0:20) ! a1 b1   b2(1:05) ! a2 b2   {}
H4  (a & b).keep("latest"):   a2(t=2)  a1(t=1)   {a2}
"""))  # fmt: skip
def test_keep_chooses_among_repeats(line: str) -> None:
    timeline(line)


def test_events_that_a_queue_drops_are_counted() -> None:
    """H3"""
    assert timeline('(a & b).keep("all", 2):   a1  a2  a3  a4   {a3 a4}').dropped == 2
    assert timeline("a & b:   a1  a2  a3   {a3}").dropped == 0
