"""Absence, quiet periods, expiry and the total order. Case ids: docs/use/conditions.md."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pendulum
import pytest
from interlock.conditions import Absent, ConditionError, Expires, Ordered, Quiet, absent, count, event
from interlock.conditions.nodes.timers import moment_ms, moment_text

from tests.unit.conditions.timeline import cases, timeline

a, b = event("a", label="a"), event("b", label="b")
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: absent("a", "1m"), "argument 1 of absent is a str: write a condition"),
        (lambda: absent(a & b, "1m"), "matchers joined with |, not event("),
        (lambda: absent(count(a, 2), "1m"), "join several absent() with &"),
        (lambda: absent(a), "absent() takes a duration, such as"),
        (lambda: absent(a, "1m", armed_by="me"), "armed_by='me'): give \"event\" or \"subscription\""),
        (lambda: Absent(a, 0), "absent() is 0 ms: at least 1 ms, at most 366 days"),
        (lambda: a.quiet("never"), "quiet(): 'never' is not a duration: write \"2h\""),
        (lambda: Quiet("a", 1), "is a str: write a condition, such as event(type=...)"),
        (lambda: Quiet(a, 1.0), "quiet() is a float: give a whole number of milliseconds"),
        (lambda: Ordered(None), "is a NoneType: write a condition, such as event(type=...)"),
        (lambda: Ordered(a.expires(after="1h")), "put it outside, as the last call"),
        (lambda: Expires("a", 1), "is a str: write a condition, such as event(type=...)"),
        (lambda: a.expires(), 'expires() needs a time: write expires(after="2h") or expires(at=...)'),
        (lambda: a.expires(after="0s"), "expires(after=) is 0 ms: at least 1 ms, at most 366 days"),
        (lambda: a.expires(at="noon"), "expires(at='noon') is not an ISO 8601 time: write 2026-11-20T18"),
        (lambda: a.expires(at=NOON.replace(tzinfo=None)), "has no time zone: give one"),
        (lambda: a.expires(at="2026-11-20T18:00:00"), "has no time zone: give one"),
        (lambda: a.expires(at=5), "expires(at=) is a int: give an aware datetime"),
        (lambda: a.expires(at="1969-12-31T00:00:00Z"), "years 1970 to 9999"),
        (lambda: Expires(a, at_ms=True), "years 1970 to 9999"),
        (lambda: Expires(a, at_ms=2**62), "years 1970 to 9999"),
        (lambda: Expires(a, after_ms=1.5), "expires(after=) is a float: give a whole number of milliseconds"),
        (lambda: a.expires(after="1h").expires(after="2h"), "put it outside, as the last call"),
    ],
)  # fmt: skip
def test_an_error_says_what_to_write(use: Callable[[], Any], message: str) -> None:
    """B4, X3, X7, T4"""
    with pytest.raises(ConditionError) as caught:
        use()
    assert message in str(caught.value)


def test_an_expiry_stays_outside_the_total_order() -> None:
    """W5, X7"""
    both = a.ordered().expires(after="1h")
    assert a.expires(after="1h").ordered() == both == both.ordered()
    assert a.ordered().ordered() == a.ordered()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (NOON, "2026-11-20T12:00:00Z"),
        (NOON.astimezone(timezone(timedelta(hours=5))), "2026-11-20T12:00:00Z"),
        (pendulum.datetime(2026, 11, 20, 13, tz="Europe/Paris"), "2026-11-20T12:00:00Z"),
        ("2026-11-20T13:00:00.250+01:00", "2026-11-20T12:00:00.250Z"),
        ("2026-11-20T12:00:00Z", "2026-11-20T12:00:00Z"),
    ],
)
def test_a_moment_is_one_whatever_its_zone(given: datetime | str, text: str) -> None:
    """X3"""
    assert moment_text(moment_ms(given)) == text
    assert moment_ms(text) == moment_ms(given)


@pytest.mark.parametrize("line", cases("""
B1  absent(a, "10m"):   tick(1:00)   {}
B1  absent(a, "10m"):   a1(0:00)  tick(0:09:59.999)  tick(0:10) ! a1 at 0:10   {}
B1  absent(a, "10m"):   a2(0:08)  a1(0:02)  tick(0:17:59.999)  tick(0:18) ! a2 at 0:18   {}
B1  absent(a, "10m"):   a1(0:00)  b1(0:05, accepted by a)  tick(0:12)  tick(0:15) ! b1   {}
B1  absent(a, "10m") | b:   a1(0:00)  a1(recorded 0:05)  tick(0:10) ! a1   {}
B2  absent(a, "10m"):   opened(0:00)  tick(0:10)   {}
B2  absent(a, "10m", armed_by="subscription"):
      opened(0:00)  a1(0:05)  tick(0:14)  tick(0:15) ! a1   tick(0:40)   {}
B2  absent(a, "10m", armed_by="subscription"):   opened(0:00)  tick(0:10) ! at 0:10   tick(0:30)  a1(0:40)
      tick(0:50) ! a1   {}
B3  absent(a | b, "10m"):   a1(0:00)  b1(0:01)  a2(0:02)  tick(0:12) ! a2 b1   {}
B3  absent(a, "10m"):   a1(0:00)  tick(0:10) ! a1   a2(1:00)  tick(1:10) ! a2   {}
B5  absent(a, "10m") & b:   a1(0:00)  tick(0:10)  b1(0:11) ! a1 b1   {}
B5  absent(a, "10m") & b:   a1(0:00)  b1(0:05)  tick(0:10) ! a1 b1 at 0:10   {}
B5  absent(a, "10m") & b:   a1(0:00)  tick(0:10)  a2(0:11)  b1(0:12)  tick(0:20)  tick(0:21) ! a2 b1   {}
B5  absent(a, "10m") | b:   a1(0:00)  b1(0:05) ! b1   tick(0:10) ! a1   {}
B5  absent(a, "10m") & absent(b, "5m"):   a1(0:00)  b1(0:01)  tick(0:06)  tick(0:10) ! a1 b1   {}
B5  at_least(2, absent(a, "10m"), b, c):   a1(0:00)  tick(0:10)  c1(0:11) ! a1 c1   {}
B6  absent(a, "10m"):   a1(0:00)  a2(0:10, waits)  tick(0:30) ! a1 at 0:10 ! a2 at 0:20   {}
B6  absent(a, "10m"):   a1(0:00)  a2(0:12, waits)  a3(0:05)  tick(0:15)  tick(0:22) ! a2   {}
"""))  # fmt: skip
def test_an_absence_fires_as_the_timeline_shows(line: str) -> None:
    timeline(line)


@pytest.mark.parametrize("line", cases("""
U1  (a & b).quiet("5m"):   a1(0:00)  tick(0:05)  b1(0:06)  tick(0:10)  tick(0:11) ! a1 b1 at 0:11   {}
U1  a.quiet("5m"):   a2(0:04)  a1(0:01)  tick(0:09) ! a2   {}
U1  a.quiet("5m"):   a2(0:02)  a1(0:01, recorded 0:04)  tick(0:07)  tick(0:09) ! a2   {}
U1  a.quiet("5m"):   a1(0:00)  a1(recorded 0:04)  tick(0:05) ! a1   {}
U1  (a & b).quiet("5m"):   a1(0:00)  b1(0:01)  a2(0:04)  tick(0:06)  tick(0:09) ! a2 b1   {}
U2  a.quiet("5m").keep("first"):   a1(0:00)  a2(0:04)  tick(0:09) ! a1   {}
U2  a.quiet("5m").keep("all"):   a1(0:00)  a2(0:04)  tick(0:09) ! a1 ! a2   {}
U3  a.quiet("5m") & b:   a1(0:00)  tick(0:05)  b1(0:06) ! a1 b1   {}
U3  a.quiet("5m") | b:   a1(0:00)  b1(0:01) ! b1   tick(0:05) ! a1   {}
U3  (a & b).within("1h").quiet("5m"):   a1(0:00)  b1(0:30)  tick(0:35) ! a1 b1   {}
U3  count(a, 2).quiet("5m"):   a1(0:00)  tick(0:10)  a2(0:11)  tick(0:16) ! a1 a2   {}
U4  a.quiet("5m"):   a1(0:00)  a2(0:05, waits)  tick(0:20) ! a1 at 0:05 ! a2 at 0:10   {}
"""))  # fmt: skip
def test_a_quiet_period_fires_as_the_timeline_shows(line: str) -> None:
    timeline(line)


@pytest.mark.parametrize("line", cases("""
X1  a.expires(after="1h"):   a1(0:00) ! a1   tick(9:00)   {}
X1  (a & b).expires(after="2h"):
      b1(0:00)  tick(1:59:59.999)  tick(2:00) ! expired b1, missing a at 2:00   {}
X2  (a & b).expires(after="2h"):   a1(0:00)  a2(1:00)  tick(2:00) ! expired a2, missing b   {}
X2  (a & b).expires(after="2h"):   a2(1:00)  a1(0:30)  tick(2:29)  tick(2:30) ! expired a2, missing b   {}
X2  (a & b).expires(after="2h"):   opened(0:00)  tick(2:00) ! expired, missing a b   tick(9:00)   {}
X2  (a & b).expires(after="2h"):   opened(0:00)  a1(1:00)  tick(2:00) ! expired a1, missing b   {}
X2  (a | (b & c)).expires(after="2h"):   b1(0:00)  a1(1:00) ! a1   tick(2:00) ! expired b1, missing a c   {}
X2  (a & b).expires(after="2h"):   a1(0:00)  b1(0:10) ! a1 b1   b2(1:00)  tick(2:30)  tick(3:00)
      ! expired b2, missing a   {}
X3  (a & b).expires(at="2026-11-16T02:00:00Z"):   a1(1:00)  tick(2:00) ! expired a1, missing b   {}
X3  (a & b).expires(at="2026-11-16T02:00:00Z"):   a1(2:00)  tick(9:00)   {a1}
X4  (a & b).expires(after="30m"):   a1(0:00)  tick(0:30) ! expired a1, missing b   b1(0:40)  a1(recorded 0:45)
      a2(0:50) ! a2 b1   {}
X5  (a & b).expires(after="2h", at="2026-11-16T01:00:00Z"):
      a1(0:00)  tick(1:00) ! expired a1, missing b at 1:00   {}
X5  (a & b).expires(after="2h", at="2026-11-16T09:00:00Z"):
      a1(0:00)  tick(2:00) ! expired a1, missing b at 2:00   {}
X6  (a & b).expires(after="2h"):   a1(0:00)  b2(2:30, waits)  b1(1:59:59.999) ! a1 b1   {b2}
X6  a.quiet("1h").expires(after="1h"):   a1(0:00)  tick(1:00) ! a1 at 1:00   {}
X6  absent(a, "1h").expires(after="1h"):   a1(0:00)  tick(1:00) ! a1 at 1:00   {}
X8  (a & (b | c)).expires(after="1h"):   a1(0:00)  tick(1:00) ! expired a1, missing b c   {}
X8  (a & (b | c)).expires(after="1h"):   c1(0:00)  tick(1:00) ! expired c1, missing a   {}
X8  at_least(2, a, b, c).expires(after="1h"):   b1(0:00)  tick(1:00) ! expired b1, missing a c   {}
X8  count(a, 3).expires(after="1h"):   a1(0:00)  a2(0:30)  tick(1:00) ! expired a1 a2, missing a   {}
X8  sequence(a, b, c).expires(after="1h"):
      c1(0:00, waits)  a1(0:10, waits)  tick(2:00) ! expired a1, missing b c   {}
X8  (a & b).within("10m").expires(after="1h"):   a1(0:00)  b1(0:20)  tick(1:00) ! expired b1, missing a   {}
X8  (a & b & ~c).within("10m").expires(after="5m"):   a1(0:00)  tick(0:05) ! expired a1, missing b   {}
X8  (a & b).quiet("10m").expires(after="5m"):   a1(0:00)  tick(0:05) ! expired a1, missing b   {}
X8  (a & b).quiet("10m").expires(after="5m"):   a1(0:00)  b1(0:04)  tick(0:05) ! expired a1 b1   {}
X8  (absent(a, "10m") & b).expires(after="5m"):   a1(0:00)  tick(0:05) ! expired a1, missing b   {}
"""))  # fmt: skip
def test_an_expiry_fires_as_the_timeline_shows(line: str) -> None:
    timeline(line)


@pytest.mark.parametrize("line", cases("""
W5  (a & b).ordered():   a1(0:01, waits)  b1(0:02, waits)  tick(0:02)  tick(0:02:00.001) ! a1 b1   {}
W5  (a | b).ordered():   b1(0:02, waits)  a1(0:01, waits)  tick(0:03) ! a1 ! b1   {}
W5  a.ordered().expires(after="1h"):   a1(0:00, waits)  tick(0:00)  tick(0:01) ! a1   {}
W5  (a & b).ordered():   a1(0:01, waits)  a1(waits)  b1(0:02, waits)  tick(1:00) ! a1 b1   {}
"""))  # fmt: skip
def test_a_total_order_fires_as_the_timeline_shows(line: str) -> None:
    timeline(line)
