"""at_least, count and sequence: what they refuse, build and choose. Case ids: docs/use/conditions.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from interlock.conditions import (
    AllOf,
    AnyOf,
    AtLeast,
    ConditionError,
    Count,
    Matcher,
    Sequence,
    at_least,
    count,
    event,
    hour,
    sequence,
)  # fmt: skip

from tests.unit.conditions.timeline import cases, timeline

a, b, c, d = (event(letter, label=letter) for letter in "abcd")
queue = event("q", keep="all", limit=2)


def many(number: int) -> list[Matcher]:
    return [event("m", label=f"m{n}") for n in range(number)]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: at_least(2), "at_least() got no conditions: write at_least(2, a, b, c)"),
        (lambda: at_least(0, a, b), "at_least(n) is 0: from 1 to 2, the number of different conditions"),
        (lambda: at_least(3, a, b, a), "at_least(n) is 3: from 1 to 2, the number of different conditions"),
        (lambda: at_least(1, a, "b"), "is a str: write a condition, such as event(type=...)"),
        (lambda: at_least(1, ["a"]), "is a list: write a condition, such as event(type=...)"),
        (lambda: at_least(2.0, a, b), "at_least(n) is a float: give a whole number"),
        (lambda: at_least(True, a, b), "at_least(n) is a bool: give a whole number"),
        (lambda: AtLeast(3, a, b, c), "AtLeast(n) is 3: from 2 to 2, fewer than the conditions; for 1 or"),
        (lambda: AtLeast(3, a, b, distinct="subject"), "at most the number of conditions; for 1, write"),
        (lambda: AtLeast(2, a, b, None), "argument 3 of at_least is a NoneType"),
        (lambda: count(a, 0), "Count(n) is 0: from 2 to 1000, because the state holds all of them"),
        (lambda: count(a, 1001), "Count(n) is 1001: from 2 to 1000, because the state holds all of them"),
        (lambda: count(a, 2.5), "Count(n) is a float: give a whole number"),
        (lambda: count(a, True), "Count(n) is a bool: give a whole number"),
        (lambda: count("a", 2), "argument 1 of count is a str: write a condition"),
        (lambda: count(a | b, 2), "count() counts the events of one matcher, not event("),
        (lambda: count(a & b, 1), "count() counts the events of one matcher, not event("),
        (lambda: count(count(a, 2), 2), "count each matcher, or let one accept several types with filters="),
        (lambda: count(queue, 3), "count() asks for 3 events, but the matcher holds at most 2: raise"),
        (lambda: Count(a, 1), "Count(n) is 1: from 2 to 1000"),
        (lambda: count(a, 3, distinct=5), "count(distinct=...) is an int: give a path in a string, such as"),
        (lambda: count(a, 3, distinct=""), "count(distinct='') is empty"),
        (lambda: count(a, 3, distinct="data.x[0]"), "items of lists cannot be reached"),
        (lambda: count(a, 3, distinct="Run"), 'count(distinct="Run") is not a path'),
        (lambda: count(a, 3, distinct=hour("logical_date", "UTC")), "or data.logical_date for a value"),
        (lambda: count(a, 3, distinct=["data.x"]), "count(distinct=[...]) has 1 path: give 2 to 8"),
        (lambda: a & count(a, 3, distinct="subject"), "with different distinct=: give one of the two a"),
        (lambda: count(a, 2, distinct="subject") | count(a, 3, distinct="source"), "different distinct="),
        (lambda: at_least(2, a, b & c, distinct="subject"), "at_least(distinct=...) compares the events of"),
        (lambda: at_least(2, a, b, distinct="data."), "has an empty member"),
        (lambda: at_least(3, a, b, distinct="subject"), "at_least(n) is 3: from 1 to 2, the number of"),
        (lambda: AtLeast(2, *many(17), distinct="subject"), "has 17 matchers: at most 16"),
        (lambda: sequence(), "sequence needs at least two conditions, it got 0"),
        (lambda: sequence(a), "sequence needs at least two conditions, it got 1"),
        (lambda: sequence(a, b, ordered="no"), "sequence(ordered=...) is a str: write True or False"),
        (lambda: sequence(a, "b"), "argument 2 of sequence is a str: write a condition"),
    ],
)  # fmt: skip
def test_an_error_says_what_to_write(use: Callable[[], Any], message: str) -> None:
    """N2, Q1, Q3, H3"""
    with pytest.raises(ConditionError) as caught:
        use()
    assert message in str(caught.value)


def test_at_least_one_and_all_of_them_are_the_operators() -> None:
    """N2"""
    assert at_least(1, a, b, c) == a | b | c
    assert at_least(3, a, b, c) == a & b & c
    assert at_least(2, a, b, a, c, b) == AtLeast(2, a, b, c)
    assert at_least(1, a, a) == a
    assert isinstance(at_least(2, a & b, c), AllOf)
    assert isinstance(at_least(1, a & b, c), AnyOf)


def test_one_of_count_is_its_matcher() -> None:
    assert count(a, 1) == a
    assert count(a, 2) == Count(a, 2)
    assert count(queue, 2).operands == (queue,)


def test_a_sequence_in_a_sequence_of_its_kind_is_merged_in() -> None:
    """P5"""
    assert sequence(sequence(a, b), c) == sequence(a, sequence(b, c)) == sequence(a, b, c)
    unordered = Sequence(a, b, ordered=False)
    assert sequence(unordered, c, ordered=False) == sequence(a, b, c, ordered=False)
    assert sequence(unordered, c).operands == (unordered, c)


def test_a_sequence_keeps_operands_that_stand_twice() -> None:
    """P3"""
    assert sequence(a, b, a).operands == (a, b, a)


@pytest.mark.parametrize("line", cases("""
N1  at_least(2, a, b, c):   c1  b1 ! b1 c1   {}
N1  at_least(2, a, b, c, d):   d1  e1 (accepted by b and c) ! e1 e1 as b c   {d1}
N1  at_least(2, a & b, c, d):   a1  d1  b1 ! a1 b1 d1   {}
N1  at_least(2, a, b, c) & d:   a1  b1  c1  d1 ! a1 b1 d1   {c1}
N3  at_least(2, a, b, c):   a1  a2  b1 ! a2 b1   {}
N3  at_least(2, a, b, c):   e1 (accepted by a and c) ! e1 e1 as a c   {}
D1  at_least(2, a, b, c):   b1  c1 ! b1 c1   b1  a1   {a1}
C4  count(a, 2):   a1  a2 ! a1 a2   a3  a4 ! a3 a4   {}
Q1  count(a, 3):   a3(t=3)  a1(t=1)  a2(t=2) ! a1 a2 a3   {}
Q1  count(a, 2) & count(b, 2):   a1  b1  a2  b2 ! a1 a2 b1 b2   {}
Q2  count(a, 2) & b:   a1  a2  a3  b1 ! a2 a3 b1   {}
Q2  (count(a, 2) & b).keep("first"):   a1  a2  a3  b1 ! a1 a2 b1   {}
Q2  (count(a, 2) & b).keep("all"):   a1  a2  a3  b1 ! a1 a2 b1   {a3}
L2  count(a, 2) & b:   a3(t=3)  a2(t=2)  a1(t=1)  b1 ! a2 a3 b1   {}
H1  count(a, 3) | (a & b):   a1  a2  b1 ! a2 b1   a3   {a1 a3}
O3  count(a, 2) | b:   a1  b1 ! b1   a2 ! a1 a2   {}
"""))  # fmt: skip
def test_at_least_and_count_choose(line: str) -> None:
    timeline(line)


@pytest.mark.parametrize("line", cases("""
Q5  count(a, 2, distinct="subject"):   a1(of x)  a2(of x)  a3(of x)  a4(of y) ! a3 a4   {}
Q5  count(a, 2, distinct="subject"):   a2(of x, t=2)  a1(of y, t=1) ! a1 a2   {}
Q5  count(a, 2, distinct="subject"):   a2(of x, t=2)  a1(of x, t=1)  a3(of y, t=3) ! a2 a3   {}
Q5  count(a, 2, distinct="subject").keep("first"):   a1(of x)  a2(of x)  a3(of y) ! a1 a3   {}
Q5  (count(a, 2, distinct="subject") & b).keep("all"):
      a1(of x)  a2(of x)  a3(of y)  a4(of z)  b1 ! a1 a3 b1   {a4}
Q5  count(a, 2, distinct=("subject", "source")):   a1(of x)  a2(of x)  a3(of y) ! a2 a3   {}
Q5  count(a, 2):   a1(of x)  a2(of x) ! a1 a2   {}
Q5  count(a, 2, distinct="subject") & b:   a1(of x)  b1  a2(of x)  a3(of y) ! a2 a3 b1   {}
Q5  sequence(count(a, 2, distinct="subject"), b, ordered=False):
      a1(of x)  a2(of x)  b1  a3(of y)  b2 ! a2 a3 b2   {}
Q5  (count(a, 2, distinct="subject") & ~b).within("1h"):
      a1(0:00, of x)  a2(0:10, of x)  a3(0:20, of y)  tick(2:00) ! a1 a3   {}
Q6  count(a, 2, distinct="subject") | count(a, 4, distinct="subject"):
      a1(of x)  a2(of x)  a3(of y) ! a2 a3   {}
Q7  count(a, 3, distinct="subject"):   a1(of x)  a2(of y)  a3(of x)  a4(of y)  a5(of x)   {a3 a4 a5}
Q7  count(a, 2, distinct="subject").keep("first"):   a1(of x)  a2(of x)  a3(of x)   {a1 a2}
X8  count(a, 3, distinct="subject").expires(after="1h"):
      a1(0:00, of x)  a2(0:10, of y)  a3(0:20, of y)  tick(1:00) ! expired a1 a3, missing a   {}
N4  at_least(2, a, b, distinct="subject"):   a1(of x)  b1(of x)  b2(of y) ! a1 b2   {b1}
N4  at_least(2, a, b, c, distinct="subject"):
      e1 (accepted by a and b, of x)  c1(of x)  c2(of y) ! e1 c2 as a c   {c1}
N4  at_least(3, a, b, c, distinct="subject"):   a1(of x)  b1(of y)  c1(of y)  b2(of z) ! a1 b2 c1   {b1}
N5  at_least(2, a, b, distinct="subject"):   a1(of x)  a2(of y)  b1(of y) ! a1 b1   {a2}
N5  at_least(3, a, b, c, distinct="subject"):
      c1(of x)  b1(of y)  b2(of x)  a1(of y)  a2(of z) ! a2 b1 c1   {a1 b2}
N5  at_least(2, a, b, distinct="subject").keep("first"):   a1(of x)  a2(of y)  b1(of x) ! a2 b1   {a1}
N6  at_least(2, a, b, distinct="subject"):   a1(of y)  a2(of x)  a3(of x)  b1(of x) ! a1 b1   {a3}
X8  at_least(3, a, b, c, distinct="subject").expires(after="1h"):
      a1(0:00, of x)  b1(0:10, of x)  tick(1:00) ! expired a1, missing b c   {}
"""))  # fmt: skip
def test_events_with_the_same_value_count_once(line: str) -> None:
    """Twenty-three hourly runs and the rerun of one are no 24 runs (Airflow, ExternalTaskSensor's lists)."""
    timeline(line)


@pytest.mark.parametrize("line", cases("""
P1  sequence(a, b, ordered=False):   b1(t=1)  a1(t=2)  b2(t=3) ! a1 b2   {}
P1  sequence(a & b, c, ordered=False):   c1(t=2)  a1(t=1)  b1(t=3)  c2(t=4) ! a1 b1 c2   {}
P2  sequence(a, b, ordered=False):   a1(t=1)  b1(t=1) ! a1 b1   {}
P2  sequence(a, b, ordered=False):   b1(t=1)  a1(t=1) ! a1 b1   {}
P3  sequence(a, a, ordered=False):   a1  a2 ! a1 a2   {}
P3  sequence(a, a, ordered=False).keep("first"):   a1  a2 ! a1 a2   {}
P3  sequence(a, b, ordered=False):   e1 (accepted by both)   {e1}
P3  sequence(a, b, ordered=False):   e1 (accepted by both)  e2 (accepted by both) ! e1 e2 as a b   {}
P4  sequence(a, b, ordered=False):   b1(t=3)  b2(t=4)  a1(t=2) ! a1 b2   {}
P4  sequence(a, b, ordered=False).keep("first"):   b2(t=4)  b1(t=3)  a2(t=2) ! a2 b1   {b2}
P4  sequence(a, b, ordered=False).keep("first"):   b1(t=1)  a1(t=2)  b2(t=3) ! a1 b2   {}
P4  sequence(a, b, c, ordered=False):   a1(t=1)  b1(t=2)  b2(t=4)  c1(t=3) ! a1 b1 c1   {b2}
P5  sequence(a | b, c, ordered=False):   b1  c1 ! b1 c1   {}
P5  sequence(count(a, 2), b, ordered=False):   a1  a2  a3  b1 ! a2 a3 b1   {}
P5  sequence(at_least(2, a, b, c), d, ordered=False):   a1  d1  c1  d2 ! a1 c1 d2   {}
P5  sequence((a & b).within("1h"), c, ordered=False):   a1(0:00)  b1(2:00)  c1(2:10)  a2(1:30) ! a2 b1 c1   {}
P6  sequence(a, b):   b1(t=2, waits)  a1(t=1, waits)  tick(t=2)  tick(t=3) ! a1 b1   {}
P6  sequence(a, b):   a1(t=1, waits)  b1(t=2, waits)  tick(t=9) ! a1 b1   a2(t=1, waits)  tick(t=10)   {a2}
P7  (sequence(a, c, ordered=False) & ~b).within("1h"):
      a1(0:00)  c1(0:10)  a2(0:20)  b1(1:05, waits)  tick(2:00) ! a1 c1   {}
A1  sequence(a, b, ordered=False) & c:   a1  b1  c1 ! a1 b1 c1   {}
O3  sequence(a, b, ordered=False) | c:   a1  c1 ! c1   b1 ! a1 b1   {}
"""))  # fmt: skip
def test_a_sequence_chooses(line: str) -> None:
    timeline(line)
