"""Periods of cron expressions: every instant is in one, they follow each other, and clock changes."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
import zoneinfo
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise

import pytest
from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st
from interlock.conditions.errors import ConditionError
from interlock.conditions.nodes import calendar
from interlock.conditions.nodes.calendar import BEGINNING, END, MAX_ZONE_CHARS, REMEMBERED_PERIODS, Periods
from interlock.conditions.nodes.matcher import MAX_LIMIT

UTC = UTC
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
ZONES = (
    "UTC",
    "Europe/London",
    "Europe/Berlin",
    "Europe/Dublin",  # winter is the time put back
    "America/New_York",
    "America/Sao_Paulo",  # changes at midnight, until 2019
    "America/St_Johns",  # changes at 00:01, until 2011
    "America/Caracas",  # half an hour, 2007 and 2016
    "Australia/Lord_Howe",  # changes by half an hour
    "Africa/Cairo",
    "Africa/Casablanca",  # changes around Ramadan
    "Africa/Monrovia",  # -0:44:30 until 1972
    "Antarctica/Troll",  # changes by two hours
    "Asia/Gaza",
    "Asia/Kathmandu",  # 15 minutes, 1986
    "Asia/Tehran",
    "Pacific/Apia",  # had no 30 December 2011
    "Pacific/Kiritimati",
)


def micros(text: str) -> int:
    """An instant as "2026-03-29 01:00" or with seconds, UTC."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def shown(instant: int) -> str:
    return (EPOCH + timedelta(microseconds=instant)).strftime("%Y-%m-%d %H:%M")


def unasked(cron: str, zone: str) -> Periods:
    """Periods with an empty cache: equal ones share theirs."""
    calendar._calendar.cache_clear()
    return Periods(cron, zone)


def boundaries(cron: str, zone: str, start: str, count: int) -> list[str]:
    """The period boundaries from the one at or before `start` on."""
    at, _ = unasked(cron, zone).of(micros(start))
    found = []
    for _ in range(count):
        found.append(shown(at))
        at = unasked(cron, zone).of(at)[1]
    return found


def test_a_period_begins_at_a_time_of_the_expression_and_ends_before_the_next() -> None:
    days = Periods("0 6 * * *", "Europe/London")
    day = (micros("2026-07-01 05:00"), micros("2026-07-02 05:00"))
    assert days.of(micros("2026-07-01 05:00")) == day
    assert days.of(micros("2026-07-02 04:59") + 59_999_999) == day
    assert days.of(micros("2026-07-02 05:00"))[0] == day[1]
    assert days.of(micros("2026-07-01 05:00") - 1)[1] == day[0]


# {rule and case: (expression, zone, boundaries around a change of the clock, in UTC)}
BOUNDARIES = {
    "R2.2-london-spring": ("30 1 * * *", "Europe/London",
     ["2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"]),
    "R2.3-london-autumn": ("30 1 * * *", "Europe/London",
     ["2026-10-24 00:30", "2026-10-25 00:30", "2026-10-26 01:30"]),
    "R2.2-several-in-a-gap-are-one": ("15,45 2 * * *", "Europe/Berlin",
     ["2026-03-28 01:15", "2026-03-28 01:45", "2026-03-29 01:00", "2026-03-30 00:15"]),
    "R2.2-before-a-time-after-the-gap": ("30 2,3 * * *", "Europe/Berlin",
     ["2026-03-28 02:30", "2026-03-29 01:00", "2026-03-29 01:30", "2026-03-30 00:30"]),
    "R2.2-on-a-time-after-the-gap": ("0 2,3 * * *", "Europe/Berlin",
     ["2026-03-28 02:00", "2026-03-29 01:00", "2026-03-30 00:00"]),
    "R2.3-berlin-autumn": ("15,45 2 * * *", "Europe/Berlin",
     ["2026-10-24 00:45", "2026-10-25 00:15", "2026-10-25 00:45", "2026-10-26 01:15"]),
    "R2.4-every-hour-in-spring": ("0 * * * *", "Europe/Berlin",
     ["2026-03-29 00:00", "2026-03-29 01:00", "2026-03-29 02:00"]),
    "R2.4-no-extra-time-in-spring": ("30 * * * *", "Europe/Berlin",
     ["2026-03-29 00:30", "2026-03-29 01:30", "2026-03-29 02:30"]),
    "R2.4-every-hour-in-autumn": ("30 * * * *", "Europe/Berlin",
     ["2026-10-24 23:30", "2026-10-25 00:30", "2026-10-25 01:30", "2026-10-25 02:30"]),
    "R2.4-on-the-hour-in-autumn": ("0 * * * *", "Europe/Berlin",
     ["2026-10-24 23:00", "2026-10-25 00:00", "2026-10-25 01:00", "2026-10-25 02:00"]),
    "R2.4-every-second-hour-in-autumn": ("0 */2 * * *", "Europe/Berlin",
     ["2026-10-24 22:00", "2026-10-25 00:00", "2026-10-25 01:00", "2026-10-25 03:00"]),
    "R2.2-every-second-hour-in-spring": ("0 */2 * * *", "Europe/Berlin",
     ["2026-03-28 23:00", "2026-03-29 01:00", "2026-03-29 02:00", "2026-03-29 04:00"]),
    "R2.4-minutes-of-one-hour-in-autumn": ("*/30 2 * * *", "Europe/Berlin",
     ["2026-10-25 00:00", "2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:30", "2026-10-26 01:00"]),
    "R2.2-minutes-of-one-hour-in-spring": ("*/30 2 * * *", "Europe/Berlin",
     ["2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:00"]),
    "R2.2-new-york-spring": ("0 2 * * *", "America/New_York",
     ["2026-03-07 07:00", "2026-03-08 07:00", "2026-03-09 06:00"]),
    "R2.3-new-york-autumn": ("30 1 * * *", "America/New_York",
     ["2026-10-31 05:30", "2026-11-01 05:30", "2026-11-02 06:30"]),
    "R2.2-half-an-hour": ("15 2 * * *", "Australia/Lord_Howe",
     ["2026-10-02 15:45", "2026-10-03 15:30", "2026-10-04 15:15"]),
    "R2.3-half-an-hour": ("45 1 * * *", "Australia/Lord_Howe",
     ["2026-04-03 14:45", "2026-04-04 14:45", "2026-04-05 15:15"]),
    "R2.4-half-an-hour-in-autumn": ("*/15 * * * *", "Australia/Lord_Howe",
     ["2026-04-04 14:30", "2026-04-04 14:45", "2026-04-04 15:00", "2026-04-04 15:15"]),
    "R2.4-half-an-hour-in-spring": ("0 * * * *", "Australia/Lord_Howe",
     ["2026-10-03 14:30", "2026-10-03 16:00", "2026-10-03 17:00"]),
    "R2.2-midnight-in-cairo": ("0 0 * * *", "Africa/Cairo",
     ["2026-04-22 22:00", "2026-04-23 22:00", "2026-04-24 21:00"]),
    "R2.3-the-hour-before-midnight-in-cairo": ("30 23 * * *", "Africa/Cairo",
     ["2026-10-28 20:30", "2026-10-29 20:30", "2026-10-30 21:30"]),
    "R2.2-midnight-in-sao-paulo": ("0 0 * * *", "America/Sao_Paulo",
     ["2018-11-03 03:00", "2018-11-04 03:00", "2018-11-05 02:00"]),
    "R2.3-before-midnight-in-sao-paulo": ("30 23 * * *", "America/Sao_Paulo",
     ["2018-02-17 01:30", "2018-02-18 01:30", "2018-02-19 02:30"]),
    "R2.1-no-summer-time-any-more": ("0 0 * * *", "America/Sao_Paulo",
     ["2026-11-01 03:00", "2026-11-02 03:00"]),
    "R2.2-fifteen-minutes-for-ever": ("0 0 * * *", "Asia/Kathmandu",
     ["1985-12-30 18:30", "1985-12-31 18:30", "1986-01-01 18:15"]),
    "R2.2-a-day-that-was-not": ("0 0 * * *", "Pacific/Apia",
     ["2011-12-29 10:00", "2011-12-30 10:00", "2011-12-31 10:00"]),
    "R2.2-noon-of-a-day-that-was-not": ("0 12 30 12 *", "Pacific/Apia",
     ["2010-12-30 22:00", "2011-12-30 10:00", "2012-12-29 22:00"]),
    "R2.1-no-leap-year-in-2100": ("0 0 29 2 *", "Europe/Berlin",
     ["2096-02-28 23:00", "2104-02-28 23:00"]),
    "R2.1-a-fifth-monday-in-february": ("0 0 * 2 MON#5", "UTC",
     ["2072-02-29 00:00", "2112-02-29 00:00"]),
    "R2.1-a-day-of-the-month-or-of-the-week": ("0 0 1,15 * MON", "UTC",
     ["2026-06-01 00:00", "2026-06-08 00:00", "2026-06-15 00:00", "2026-06-22 00:00"]),
    "R2.1-the-last-day-of-the-month": ("59 23 L * *", "UTC",
     ["2028-01-31 23:59", "2028-02-29 23:59", "2028-03-31 23:59"]),
}  # fmt: skip


@pytest.mark.parametrize(("cron", "zone", "expected"), BOUNDARIES.values(), ids=BOUNDARIES)
def test_boundaries_around_a_clock_change_are_as_listed(cron: str, zone: str, expected: list[str]) -> None:
    assert boundaries(cron, zone, expected[0], len(expected)) == expected
    # the same, from the last instant of each period
    ends = [unasked(cron, zone).of(micros(after) - 1) for after in expected[1:]]
    assert ends == list(pairwise(map(micros, expected)))


def test_a_wall_time_shown_again_lies_in_the_period_that_began_at_the_first() -> None:
    quarters = Periods("15,45 1 * * *", "Europe/London")
    first, second = micros("2026-10-25 00:45"), micros("2026-10-25 01:15")
    assert quarters.of(second) == (first, micros("2026-10-26 01:15"))
    assert quarters.of(micros("2026-10-25 01:00")) == (first, micros("2026-10-26 01:15"))


def test_all_times_of_the_first_and_last_year_have_a_period() -> None:
    days = Periods("0 0 * * *", "UTC")
    assert days.of(micros("1899-12-31 12:00")) == (BEGINNING, micros("1900-01-02 00:00"))
    assert days.of(-(10**25))[0] == BEGINNING
    assert days.of(micros("2199-12-31 00:00")) == (micros("2199-12-31 00:00"), END)
    assert days.of(micros("2205-12-31 00:00")) == (micros("2199-12-31 00:00"), END)
    assert days.of(10**25) == (micros("2199-12-31 00:00"), END)
    assert -(2**63) < BEGINNING < END < 2**63


_values = st.lists(st.integers(0, 59), min_size=1, max_size=3, unique=True)


@st.composite
def crons(draw: st.DrawFn) -> tuple[str, list[int], list[int], list[int] | None, bool, bool]:
    """An expression, its minutes, hours and weekdays, whether it runs every hour, and whether it repeats."""
    step = draw(st.sampled_from([0, 0, 0, 7, 15, 30]))
    minutes = sorted(draw(_values)) if not step else list(range(0, 60, step))
    minute = ",".join(map(str, minutes)) if not step else f"*/{step}"
    hour_step = draw(st.sampled_from([0, 0, 0, 0, 1, 2, 5]))
    hours = sorted(n % 24 for n in draw(_values)) if not hour_step else list(range(0, 24, hour_step))
    hours = sorted({*hours, draw(st.integers(0, 3))}) if not hour_step else hours
    hour = {0: ",".join(map(str, hours)), 1: "*"}.get(hour_step, f"*/{hour_step}")
    days = draw(st.none() | st.lists(st.integers(0, 6), min_size=1, max_size=3, unique=True).map(sorted))
    weekday = "*" if days is None else ",".join(map(str, days))
    every_hour = hour_step == 1
    return f"{minute} {hour} * * {weekday}", minutes, hours, days, every_hour, bool(step or hour_step)


@cache
def changes(zone: str) -> list[datetime]:
    """The clock changes of a zone from 1970 to 2040, in UTC, found by checking every day."""
    info = zoneinfo.ZoneInfo(zone)

    def offset(at: datetime) -> timedelta | None:
        return at.astimezone(info).utcoffset()

    found = []
    day = EPOCH
    while day.year < 2040:
        low, high = day, day + timedelta(days=1)
        if offset(low) != offset(high):
            while high - low > timedelta(seconds=1):
                middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
                low, high = (middle, high) if offset(middle) == offset(low) else (low, middle)
            found.append(high)
        day += timedelta(days=1)
    return found


def occurrences(
    zone: str,
    around: datetime,
    minutes: list[int],
    hours: list[int],
    days: list[int] | None,
    every_hour: bool,
    repeats: bool,
) -> Iterator[int]:
    """All instants of an expression within nine days, by trying every offset of those days (R2.1 to R2.4)."""
    info = zoneinfo.ZoneInfo(zone)
    near = [at for at in changes(zone) if abs(at - around) < timedelta(days=11)]
    sampled = [around - timedelta(days=10), around + timedelta(days=10)]
    sampled += [at + timedelta(seconds=s) for at in near for s in (-1, 0)]
    offsets = {at.astimezone(info).utcoffset() or timedelta(0) for at in sampled}
    today = around.astimezone(info).date()
    for n in range(-9, 10):
        day = today + timedelta(days=n)
        if days is not None and day.isoweekday() % 7 not in days:
            continue
        for hour in hours:
            for minute in minutes:
                wall = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001
                found = sorted(
                    at
                    for at in ((wall - offset).replace(tzinfo=UTC) for offset in offsets)
                    if at.astimezone(info).replace(tzinfo=None) == wall
                )
                if not found and not every_hour:
                    found = [
                        at
                        for at in near
                        if (at - timedelta(seconds=1)).astimezone(info).replace(tzinfo=None) < wall
                        and wall < at.astimezone(info).replace(tzinfo=None)
                    ]
                for at in found if repeats else found[:1]:
                    yield (at - EPOCH) // timedelta(microseconds=1)


@given(
    cron=crons(),
    zone=st.sampled_from([zone for zone in ZONES if zone not in ("UTC", "Pacific/Kiritimati")]),
    pick=st.integers(0, 10**6),
    seconds=st.integers(-2 * 86400, 2 * 86400) | st.integers(-7200, 7200),
    fraction=st.sampled_from([0, 1, 999_999]),
)
def test_periods_near_a_change_are_those_of_a_search_through_all_instants(
    cron: tuple[str, list[int], list[int], list[int] | None, bool, bool],
    zone: str,
    pick: int,
    seconds: int,
    fraction: int,
) -> None:
    text, *shape = cron
    change = changes(zone)[pick % len(changes(zone))]
    instant = (change - EPOCH) // timedelta(microseconds=1) + seconds * SECOND + fraction
    times = sorted(set(occurrences(zone, change, *shape)))  # type: ignore[arg-type]
    place = bisect_right(times, instant)
    assert unasked(text, zone).of(instant) == (times[place - 1], times[place])


_crons = st.sampled_from(
    [
        "* * * * *", "*/7 * * * *", "0 * * * *", "30 */3 * * *", "0 0 * * *", "30 1 * * *", "30 2 * * *",
        "0 0 * * 0", "0 9-17/2 * * MON-FRI", "0 0 1 * *", "0 0 L * *", "0 0 31 * *", "0 0 * * MON#1",
        "0 0 * * L5", "0 0 29 2 *", "* 2 29 2 *", "0 0 * 2 MON#5", "59 23 31 12 *", "0 0 13 * 5",
        "15 0 1 1,4 *",
    ]
)  # fmt: skip


@given(
    cron=_crons,
    zone=st.sampled_from(ZONES),
    instant=st.integers(micros("1970-01-01 00:00"), micros("2101-01-01 00:00") - 1),
)
def test_every_instant_lies_in_one_period_and_periods_follow_one_another(
    cron: str, zone: str, instant: int
) -> None:
    start, end = unasked(cron, zone).of(instant)
    assert start <= instant < end
    assert unasked(cron, zone).of(start) == (start, end)
    assert unasked(cron, zone).of(end - 1) == (start, end)
    assert unasked(cron, zone).of(end)[0] == end
    assert unasked(cron, zone).of(start - 1)[1] == start


@given(
    cron=_crons,
    zone=st.sampled_from(ZONES),
    instants=st.lists(st.integers(micros("1970-01-01 00:00"), micros("2101-01-01 00:00") - 1), max_size=20),
)
def test_earlier_look_ups_do_not_change_a_period(cron: str, zone: str, instants: list[int]) -> None:
    forward, backward = unasked(cron, zone), unasked(cron, zone)
    there = [forward.of(instant) for instant in instants]
    back = [backward.of(instant) for instant in reversed(instants)]
    assert there == back[::-1] == [unasked(cron, zone).of(instant) for instant in instants]


def test_the_periods_of_all_events_that_matchers_may_hold_are_searched_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A state that held events of more than 128 periods searched all of them again at each event: 100 ms."""
    searches: Counter[str] = Counter()
    get_next = croniter.get_next
    monkeypatch.setattr(
        croniter, "get_next", lambda self, *a, **b: searches.update("s") or get_next(self, *a, **b)
    )
    days = unasked("0 0 * * *", "UTC")
    held = [micros("2016-01-01 12:00") + n * DAY for n in range(3 * MAX_LIMIT)]
    for _ in range(3):
        for at in held:
            assert days.of(at) == (at - DAY // 2, at + DAY // 2)
    assert searches["s"] == len(held)


def test_more_periods_than_are_remembered_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calendar, "REMEMBERED_PERIODS", 128)
    minutes = unasked("* * * * *", "UTC")
    start = micros("2026-01-01 00:00")
    for _ in range(2):
        for n in [*range(0, 300, 2), *range(299, 0, -2)]:
            at = start + n * 60 * SECOND
            assert minutes.of(at + 1) == (at, at + 60 * SECOND)


def test_the_memory_of_periods_is_bounded() -> None:
    """A hundred thousand waits may share one calendar, but there may also be hundreds of calendars."""
    minutes = unasked("*/3 * * * *", "UTC")
    minutes.of(0)
    tracemalloc.start()
    try:
        for n in range(REMEMBERED_PERIODS + 200):
            minutes.of(micros("2026-01-01 00:00") + n * 180 * SECOND)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 80 * REMEMBERED_PERIODS


def test_threads_find_the_same_periods() -> None:
    instants = [micros("2020-01-01 12:00") + n * DAY for n in range(400)]
    alone = [unasked("5 0 * * *", "Europe/Paris").of(instant) for instant in instants]
    days = unasked("5 0 * * *", "Europe/Paris")
    orders = [instants, instants[::-1]] * 4
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda order: {at: days.of(at) for at in order}, orders):
            assert [found[at] for at in instants] == alone


def test_periods_are_values() -> None:
    days = Periods("@daily", "Europe/London")
    assert days == Periods("0  0 * * *", "Europe/London")
    assert hash(days) == hash(Periods("0 0 * * *", "Europe/London"))
    assert days != Periods("0 0 * * *", "Europe/Paris")
    assert (days.cron, days.timezone) == ("0 0 * * *", "Europe/London")
    assert repr(days) == "Periods(cron='0 0 * * *', timezone='Europe/London')"
    with pytest.raises(AttributeError):
        days.cron = "0 1 * * *"  # type: ignore[misc]


def test_periods_survive_pickling_and_copying() -> None:
    days = Periods("0 0 * * *", "Europe/London")
    days.of(0)
    for other in (pickle.loads(pickle.dumps(days)), copy.copy(days), copy.deepcopy(days)):
        assert other == days
        assert other.of(HOUR) == days.of(HOUR)


@pytest.mark.parametrize(
    ("zone", "message"),
    [
        (None, "timezone is a NoneType"),
        (UTC, "timezone is a timezone"),
        ("", "is not in the IANA database"),
        ("local", "differs between machines"),
        ("localtime", "differs between machines"),
        ("Factory", "differs between machines"),
        ("europe/london", 'did you mean "Europe/London"'),
        ("Europe/Londn", 'did you mean "Europe/London"'),
        ("America/New York", 'did you mean "America/New_York"'),
        ("utc", 'did you mean "UTC"'),
        (
            "+01:00",
            'name a place, as in "Europe/London"; +1 h all year is "Etc/GMT-1", whose sign is reversed',
        ),
        ("GMT+2", '"Etc/GMT-2", whose sign is reversed'),
        ("UTC-05", '"Etc/GMT+5", whose sign is reversed'),
        ("utc -14:00", 'name a place, as in "Europe/London"'),
        ("GMT+00:00", 'write "UTC"'),
        ("right/UTC", "is not in the IANA database"),
        ("posix/Europe/London", "is not in the IANA database"),
        ("../Europe/London", "is not in the IANA database"),
        ("/etc/localtime", "is not in the IANA database"),
        ("Europe", "is not in the IANA database"),
        ("Europe/London\0", "is not in the IANA database"),
        ("zone.tab", "is not in the IANA database"),
        ("tzdata", "is not in the IANA database"),
        ("x" * (MAX_ZONE_CHARS + 1), "at most 64"),
    ],
)
def test_an_unknown_zone_is_an_error_with_a_similar_name(zone: object, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        Periods("0 0 * * *", zone)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_a_wrong_expression_is_refused_at_construction() -> None:
    with pytest.raises(ConditionError, match="never occurs"):
        Periods("0 0 30 2 *", "UTC")


@given(st.text(max_size=70))
def test_any_text_for_a_zone_is_read_or_refused(text: str) -> None:
    with suppress(ConditionError):
        assert Periods("0 0 * * *", text).of(0)[0] <= 0
