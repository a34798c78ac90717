"""Windows, periods and `~` inside them. Case ids: docs/use/conditions.md."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from interlock.conditions import Condition, ConditionError, Not, Reset, Within, count, event, sequence

from tests.unit.conditions.timeline import cases, millis, timeline

a, b, c, d, e, f = (event(letter, label=letter) for letter in "abcdef")


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: a.within("1h"), 'within() around event(type="a", label="a") has no effect: a single event'),
        (lambda: (a | b).resets("@daily"), "has no effect: a single event meets it"),
        (lambda: (a & b).within(), 'within() takes a duration, such as "2h"'),
        (lambda: (a & b).within("1h", hours=1), "within(): give a duration or hours, not both"),
        (lambda: (a & b).within("0s"), "within() is 0 ms: at least 1 ms, at most 366 days"),
        (lambda: (a & b).within("1h", lateness="-1s"), "lateness: '-1s' is not a duration: write"),
        (lambda: (a & b).within("1h", lateness="367d"), "lateness is 31708800000 ms: at least 0 ms"),
        (lambda: (a & b).resets("@daily", lateness=timedelta(-1)), "lateness is -86400000 ms: at least 0 ms"),
        (lambda: (a & b).resets("0 0 * *"), "0 0 * *"),
        (lambda: (a & b).resets(6), "cron is a int: write a text of five fields"),
        (lambda: (a & b).resets("@daily", timezone="Mars"), "'Mars' is not in the IANA database"),
        (lambda: Within("a", 1), "a str: write a condition, such as event(type=...)"),
        (lambda: Within(a & b, 1.5), "within() is a float: give a whole number of milliseconds"),
        (lambda: Within(a & b, 1, True), "lateness is a bool: give a whole number of milliseconds"),
        (lambda: Not("a"), "the operand of ~ is a str: write a condition"),
        (lambda: ~(a & b), "it negates a matcher, or matchers joined with |"),
        (lambda: ~count(a, 2), "it negates a matcher, or matchers joined with |"),
        (lambda: (~a).within("1h"), 'because everything in it is negated; write absent(b, "1h")'),
        (lambda: (~a & ~b).resets("@daily"), "nothing opens this window, because everything in it"),
        (lambda: (a & ~(b | a)).within("1h"), 'requires and negates event(type="a", label="a"): it could'),
    ],
)  # fmt: skip
def test_an_error_says_what_to_write(use: Callable[[], Any], message: str) -> None:
    """I8, E1, E2, E10, R1, T4"""
    with pytest.raises(ConditionError) as caught:
        use()
    assert message in str(caught.value)


def test_windows_nest_four_deep() -> None:
    """I4"""
    nested: Condition = a
    for hours, other in enumerate((b, c, d, e), 1):
        nested = (nested & other).within(hours=hours)
    with pytest.raises(ConditionError, match="windows are nested 5 deep: at most 4"):
        (nested & f).resets("@daily")
    (a & b).within("1h") | nested  # side by side is not nested


def test_a_window_has_its_positive_condition_and_its_negated_matchers() -> None:
    """E2"""
    window = (a & ~(b | c) & sequence(d, e) & ~c).within("1h")
    assert window.positive == a & sequence(d, e)
    assert window.negated == (b, c)
    assert (a & ~b).within("1h").positive == a
    assert (a & b).within("1h").positive == a & b
    assert (a & b).within("1h").negated == ()


def test_lateness_is_an_hour_and_none_where_it_would_delay() -> None:
    """I5, E6, R4"""
    assert (a & b).within("1d").late_ms == (a & b).resets("@daily").late_ms == 3_600_000
    assert (a & ~b).within("1d").late_ms == (a & ~b).resets("@daily").late_ms == 0
    assert (a & ~b).within("1d", lateness="2s").late_ms == 2000
    assert (a & b).within("1d", lateness="0s").late_ms == 0


def test_a_period_is_that_of_its_expression_and_zone() -> None:
    """R1"""
    reset = (a & b).resets("0 6 * * *", timezone="Europe/London")
    assert isinstance(reset, Reset)
    six = datetime(2026, 7, 1, 5, tzinfo=UTC)  # in London
    assert reset.periods.of(millis(six) * 1000)[0] == millis(six) * 1000
    assert reset.periods.of(millis(six) * 1000 - 1)[1] == millis(six) * 1000


@pytest.mark.parametrize("line", cases("""
I1  (a & b).within("1h"):   a1(0:00)  b1(1:00:00.001)   {a1 b1}
I1  (a & b).within("1h"):   b1(1:00)  a1(0:00) ! a1 b1   {}
I1  (a & b & c).within("1h"):   a1(0:00)  b1(0:40)  c1(1:20)  a2(1:00) ! a2 b1 c1   {}
I1  count(a, 2).within("1s"):   a1(0:00)  a2(0:00:02)  a3(0:00:03) ! a2 a3   {}
I1  at_least(2, a, b, c).within("1h"):   a1(0:00)  b1(2:00)  c1(2:30) ! b1 c1   {a1}
I2  (a & b).within("1h"):   a1(0:00)  a2(0:30)  b1(1:20) ! a2 b1   {}
I3  (a & b).within("1h"):   a1(0:00)  a2(0:05)  a3(2:00)  a4(2:03)  b1(1:04, comes last) ! a4 b1   {}
I3  (a & b).within("1h").keep("first"):   a1(0:00)  a2(0:05)  a3(2:00)  b1(1:04, comes last) ! a2 b1   {a3}
I3  (a & b).within("1h").keep("first"):   a1(0:00)  a2(0:05)  b1(0:30) ! a1 b1   {}
I3  (a & b).within("1h").keep("all"):   a1(0:00)  a2(0:05)  b1(0:30) ! a1 b1   b2(0:40) ! a2 b2   {}
I4  ((a & b).within("10m") & c).within("1d"):   a1(0:00)  b1(0:20)  c1(1:00)  a2(0:15) ! a2 b1 c1   {}
I4  ((a & b).within("10m") & c).within("1h"):   a1(0:00)  b1(0:10)  c1(1:05)   {a1 b1 c1}
I4  ((a & b).within("1h") & c).within("10m"):   a1(0:00)  b1(0:20)  c1(0:25)  a2(0:16) ! a2 b1 c1   {}
I4  (a & b).within("1h") & c:   a1(0:00)  b1(9:00)  c1(9:00)  a2(8:30) ! a2 b1 c1   {}
I5  (a & b).within("1h"):   a1(0:00)  b1(0:30, recorded 2:00) ! a1 b1   {}
I5  (a & b).within("1h"):   a1(0:00)  tick(2:00)  b1(0:30, recorded 2:00) ! a1 b1   {}
I5  (a & b).within("1h"):   a1(0:00)  tick(2:00:00.001)   {}
I5  (a & b).within("1h", lateness="5m"):   a1(0:00)  tick(1:05)  tick(1:05:00.001)   {}
I6  (a & b).within("1h"):   a1(0:00)  b1(0:30, recorded 2:00:00.001)   {a1 b1}
I6  (a & b).within("1h"):
      a1(0:40, recorded 0:00)  a2(0:20, recorded 2:00)  b1(0:30, recorded 2:30) ! a2 b1   {a1}
I6  (a & b).within("1h") | c:   a1(0:00)  tick(2:00:00.001)   {}
I6  (a & b).within("1h") & c:   a1(0:00)  tick(9:00)  b1(0:30, recorded 9:00)  c1(9:01) ! a1 b1 c1   {}
I7  (a & b).within("1h"):   b1(0:00)  b2(1:30)  a1(0:10, comes last) ! a1 b1   {b2}
I7  (a & b).within("1h"):   b1(0:00)  b2(0:05)  a1(0:10) ! a1 b2   a2(0:11)   {a2}
I7  (a & b).within("1h") | c:   a1(0:00)  c1(0:10) ! c1   b1(0:20) ! a1 b1   {}
A1  (a & b).within("1h") & c:   c1(0:00)  a1(1:00)  b1(2:00) ! a1 b1 c1   {}
O2  (a | (b & c)).within("1h"):   b1(0:00)  a1(0:01) ! a1   c1(0:30) ! b1 c1   {}
D1  (a & b).within("1h"):   a1(0:00)  b1(0:10) ! a1 b1   a1   {}
"""))  # fmt: skip
def test_a_sliding_window_fires_as_the_timeline_shows(line: str) -> None:
    timeline(line)


@pytest.mark.parametrize("line", cases("""
R1  (a & b).resets("@daily"):   a1(Mon 0:00)  b1(Mon 23:59:59.999) ! a1 b1   {}
R1  (a & b).resets("@daily"):   a1(Mon 0:00)  b1(Tue 0:00)   {a1 b1}
R1  (a & b).resets("@daily"):   a1(Mon 1:00)  b1(Tue 0:30)  b2(Mon 3:00, comes last) ! a1 b2   {b1}
R1  (a & b).resets("@daily", timezone="Asia/Tokyo"):
      a1(Mon 14:59)  b1(Mon 15:00)  a2(Tue 14:59) ! a2 b1   {}
R3  count(a, 2).resets("@daily"):   a1(Mon 23:00)  a2(Tue 0:30)  a3(Tue 0:31) ! a2 a3   {}
R4  (a & b).resets("@daily"):   a1(Mon 23:00)  b1(Mon 23:50, recorded Tue 1:00) ! a1 b1   {}
R4  (a & b).resets("@daily"):   a1(Mon 23:00)  b1(Mon 23:50, recorded Tue 1:00:00.001)   {a1 b1}
R4  (a & b).resets("@daily"):   a1(Mon 23:00)  tick(Tue 1:00)  tick(Tue 1:00:00.001)   {}
R4  (a & b).resets("@daily", lateness="0s"):   a1(Mon 23:00)  tick(Tue 0:00)  tick(Tue 0:00:00.001)   {}
R4  (a & b).resets("@daily"):   a1(Mon 23:00, recorded Wed 0:00)  tick(Wed 1:00)  tick(Wed 1:00:00.001)   {}
R5  (a & b).resets("@daily"):   a1(Mon 23:00)  tick(Tue 0:00)   {a1}
R5  (a & b).resets("@daily").expires(after="1d"):   a1(Mon 23:00)  tick(Tue 23:00) ! expired, missing a b   {}
R6  (a & b).resets("@daily"):   a1(Mon 1:00)  a2(Mon 2:00)  b1(Mon 3:00) ! a2 b1   b2(Mon 4:00)   {b2}
R6  (a & b).within("1h").resets("@daily"):   a1(Mon 23:30)  b1(Tue 0:10)  a2(Tue 0:20) ! a2 b1   {}
"""))  # fmt: skip
def test_a_period_fires_as_the_timeline_shows(line: str) -> None:
    timeline(line)


@pytest.mark.parametrize("line", cases("""
E2  (a & ~(b | c)).within("1h"):   a1(0:00)  c1(0:30)  tick(2:00)   {}
E3  (a & ~b).within("1h"):   a1(0:00)  b1(1:00:00.001, waits)  tick(2:00) ! a1   {}
E3  (a & ~b).within("1h"):   a1(0:00)  a2(0:30)  tick(3:00) ! a1 at 1:00:00.001 ! a2 at 1:30:00.001   {}
E4  (a & ~b).within("1h"):   b1(0:30)  a1(0:00, comes last)  tick(2:00)   {}
E4  (a & c & ~b).within("1h"):   a1(0:00)  c1(1:00)  tick(1:00:00.001) ! a1 c1   {}
E4  (a & c & ~b).within("1h"):   a1(0:00)  tick(1:00:00.001)   {}
E4  (a & c & ~b).within("1h"):   a1(0:00)  a2(0:10)  c1(0:20)  tick(3:00) ! a1 c1   {}
E4  (a & c & ~b).within("1h"):   a1(0:00)  b1(0:05)  c1(0:20)  a2(0:30)  tick(3:00) ! a2 c1   {}
E5  (a & ~b).within("1h"):   b1(0:00)  a1(0:00)  tick(2:00)   {}
E5  (a & ~b).within("1h"):   e1(0:00, accepted by both)  tick(2:00)   {}
E6  (a & ~b).within("1h"):   a1(0:00)  tick(1:00)   {a1}
E6  (a & ~b).within("1h", lateness="5m"):   a1(0:00)  b1(1:00, recorded 1:05)  tick(2:00)   {}
E6  (a & ~b).within("1h", lateness="5m"):   a1(0:00)  tick(1:05)  tick(1:05:00.001) ! a1 at 1:05:00.001   {}
E6  (a & ~b).within("1h"):   a1(0:00, recorded 3:00)  tick(3:00)  tick(3:00:00.001) ! a1 at 3:00:00.001   {}
E7  (a & c & ~b).within("1h"):   a1(0:00)  tick(1:00:00.001)  c1(0:30, recorded 2:00)  tick(9:00)   {}
E8  (a & ~b).within("1h"):   b1(0:30)  tick(9:00)  a1(0:10, recorded 9:00)  tick(9:01)   {}
E8  (a & ~b).within("1h"):   b1(0:30)  tick(Tue 1:30)  a1(0:10, recorded Tue 1:30)  tick(Tue 2:00)   {}
E8  (a & ~b).within("1h"):
      b1(0:30)  tick(Tue 1:30:00.001)  a1(0:10, recorded Tue 1:31)  tick(Tue 2:00) ! a1   {}
E8  (a & ~b).within("1h"):   b1(0:00)  b2(2:00)  b3(4:00)  a1(1:30, recorded 4:10)  tick(9:00)   {}
E8  (a & ~b).within("1h") | b:   b1(0:30) ! b1   a1(0:10)  tick(2:00)   {}
E9  (a & ~b).within("1h") | c:   a1(0:00)  c1(0:10) ! c1   tick(2:00) ! a1   {}
E9  (a & ~b).within("1h") | (c & ~d).within("30m"):
      a1(0:00)  c1(0:10)  tick(2:00) ! c1 at 0:40:00.001 ! a1   {}
R5  (a & ~b).resets("@daily"):
      a1(Mon 6:00)  a2(Mon 7:00)  tick(Tue 0:00:00.001) ! a1 at Tue 0:00:00.001   {}
R5  (a & ~b).resets("@daily"):   b1(Mon 1:00)  a1(Mon 6:00)  tick(Tue 1:00)   {}
R5  (a & ~b).resets("@daily"):   a1(Mon 6:00)  b1(Tue 0:00)  tick(Tue 1:00) ! a1   {}
R5  (a & ~b).resets("@daily"):
      a1(Mon 6:00)  b1(Mon 23:59:59.999)  a2(Tue 1:00, waits)  tick(Wed 1:00) ! a2   {}
W6  (a & ~b).within("1h"):   tick(3:00)  a1(0:00)  tick(4:00)   {}
"""))  # fmt: skip
def test_a_window_with_a_negation_fires_as_the_timeline_shows(line: str) -> None:
    timeline(line)
