"""Durations in the spellings that authors use (T4)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock.conditions import ConditionError
from interlock.conditions.nodes.duration import MAX_DURATION_MS, duration_ms, duration_text, offset_text

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ("1ms", 1), ("1s", 1000), ("90m", 90 * MINUTE), ("1h30m", 90 * MINUTE), ("2h", 2 * HOUR),
        ("1w2d3h4m5s6ms", 9 * DAY + 3 * HOUR + 4 * MINUTE + 5006), ("1m5ms", MINUTE + 5), ("007s", 7000),
        ("366d", MAX_DURATION_MS), (timedelta(hours=2), 2 * HOUR), (timedelta(milliseconds=1), 1),
        (timedelta(days=366), MAX_DURATION_MS), (pendulum.duration(weeks=1, hours=2), 7 * DAY + 2 * HOUR),
    ],
)  # fmt: skip
def test_a_duration_is_a_text_or_a_timedelta(given: str | timedelta, ms: int) -> None:
    assert duration_ms("d", given) == ms


@pytest.mark.parametrize(
    ("units", "ms"),
    [
        ({"hours": 2}, 2 * HOUR),
        ({"minutes": 1, "seconds": 30}, 90_000),
        ({"days": 0.5}, DAY // 2),
        ({"weeks": 1}, 7 * DAY),
        ({"milliseconds": 5}, 5),
    ],
)
def test_a_duration_is_given_in_units(units: dict[str, float], ms: int) -> None:
    assert duration_ms("d", None, units) == ms


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "h", "2", "2 h", " 2h", "2h\n", "2H", "1.5h", "-1h", "+1h", "30m1h", "1h1h", "1e3s", "٣h",
        "1µs", "9" * 13 + "s",
    ],
)  # fmt: skip
def test_a_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(
        ConditionError, match=r'd: .* is not a duration: write "2h", "90m" or "1d12h"'
    ) as caught:
        duration_ms("d", text)
    assert repr(text)[1:-1][:10] in str(caught.value)


@pytest.mark.parametrize(
    ("given", "units", "message"),
    [
        (None, {}, "d takes a duration, such as"),
        (60, {}, "d takes a duration, such as"),
        ("1h", {"hours": 1}, "d: give a duration or hours, not both"),
        (None, {"hours": "1"}, "d got hours='1': give weeks, days, hours, minutes or seconds as numbers"),
        (None, {"fortnights": 1}, "d has no argument"),
        (None, {"hours": 1e300}, "d got hours=1e+300: give weeks"),
        (None, {"hours": True}, "d got hours=True: give weeks"),
        (None, {"hours": float("nan")}, "d got hours=nan: give weeks"),
        ("0s", {}, "d is 0 ms: at least 1 ms, at most 366 days"),
        (timedelta(-1), {}, "d is -86400000 ms: at least 1 ms"),
        ("367d", {}, "d is 31708800000 ms: at least 1 ms, at most 366 days"),
        (timedelta(days=366, milliseconds=1), {}, "at most 366 days"),
        (timedelta(microseconds=1500), {}, "is not a whole number of milliseconds"),
    ],
)  # fmt: skip
def test_an_invalid_duration_is_an_error(given: Any, units: dict[str, Any], message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        duration_ms("d", given, units)
    assert message in str(caught.value)


def test_none_at_all_is_a_lateness_but_no_duration() -> None:
    """I5"""
    assert duration_ms("lateness", "0s", zero=True) == 0
    with pytest.raises(ConditionError, match="-1 ms: at least 0 ms"):
        duration_ms("lateness", timedelta(milliseconds=-1), zero=True)


@given(st.integers(1, MAX_DURATION_MS))
def test_the_text_of_a_duration_is_one(ms: int) -> None:
    assert duration_ms("d", duration_text(ms)) == ms
    assert duration_ms("d", offset_text(ms)) == ms


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (90 * MINUTE, "1h30m"),
        (MINUTE + 5, "1m5ms"),
        (7 * DAY, "1w"),
        (14 * DAY, "2w"),
        (9 * DAY + 5 * HOUR, "9d5h"),
        (30 * DAY, "30d"),
        (MAX_DURATION_MS, "366d"),
    ],
)
def test_the_text_of_a_duration_has_weeks_only_if_they_are_whole(ms: int, text: str) -> None:
    assert duration_text(ms) == text
