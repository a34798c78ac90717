"""Days, hours, weeks and months in a time zone as keys. Case ids: docs/use/conditions.md."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock.conditions import (
    ConditionError,
    MatcherIndex,
    canonical_key,
    count,
    day,
    event,
    from_json,
    hour,
    month,
    parse,
    rehearse,
    week,
)
from interlock.conditions.nodes.paths import parse_path
from interlock.conditions.nodes.zoned import key_of_text, zoned_key
from interlock.conditions.nodes.zones import in_zone
from interlock.events import Event

BERLIN, LONDON, AUCKLAND = "Europe/Berlin", "Europe/London", "Pacific/Auckland"
MIDNIGHT = "2026-11-19T23:00:00Z"  # in Berlin, of the 20th


def key_of(by: str, value: object) -> str | None:
    return event("t", by=by).key_of(Event.of("t", "/s", data={"d": value}))


@pytest.mark.parametrize(
    ("function", "key"),
    [(day, "2026-11-20"), (week, "2026-W47"), (month, "2026-11"), (hour, "2026-11-19T23:00:00Z")],
)
@pytest.mark.parametrize(
    ("unit", "value"),
    [
        (None, MIDNIGHT),
        (None, "2026-11-20T00:00:00.000+0100"),
        (None, "20261119T230000Z"),
        (None, "2026-11-20 12:00:00+13:00"),
        ("s", 1_795_129_200),
        ("s", 1_795_129_200.75),
        ("s", "1795129200"),
        ("ms", 1_795_129_200_000),
        ("ms", MIDNIGHT),
        ("us", 1_795_129_200_000_000),
        ("us", "1795129200000000"),
        ("ns", 1_795_129_200_000_000_000),
        ("ns", "1795129200000000000"),
    ],
)
def test_a_moment_in_any_spelling_is_the_day_of_the_place(
    function: Callable[..., Any], key: str, unit: Any, value: object
) -> None:
    """K32, K33: Debezium's epoch units, Kafka Connect's and Airflow's texts.

    No unit read the nanoseconds of Debezium's NanoTimestamp and ts_ns (debezium/debezium#805).
    """
    assert key_of(function("data.d", tz=BERLIN, unit=unit), value) == key


@pytest.mark.parametrize("value", ["2026-11-20", "20261120", 20261120, 20261120.0])
def test_a_date_is_that_day_in_any_zone_and_has_no_hour(value: object) -> None:
    """K34"""
    assert key_of(day("data.d", tz=AUCKLAND), value) == "2026-11-20"
    assert key_of(week("data.d", tz=AUCKLAND), value) == "2026-W47"
    assert key_of(month("data.d", tz=AUCKLAND), value) == "2026-11"
    assert key_of(hour("data.d", tz=AUCKLAND), value) is None


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", "d"])
def test_a_written_date_is_that_day_with_any_unit(unit: Any) -> None:
    """K33, K34: a topic may hold numbers and texts; 20261120 is a number then."""
    assert key_of(day("data.d", tz=AUCKLAND, unit=unit), "2026-11-20") == "2026-11-20"
    assert key_of(hour("data.d", tz=AUCKLAND, unit=unit), "2026-11-20") is None
    assert key_of(day("data.d", tz="UTC", unit=unit), "20261120") != "2026-11-20"
    with pytest.raises(ConditionError, match="a date has no time"):
        key_of_text(day("2026-11-20", tz=AUCKLAND, unit=unit))


def test_a_number_may_be_written_with_an_exponent() -> None:
    """K33: as Java and spreadsheets write it."""
    assert key_of(day("data.d", tz=BERLIN, unit="ms"), "1.7951292E12") == "2026-11-20"
    assert key_of(day("data.d", tz=BERLIN, unit="s"), "1.7951292e+09") == "2026-11-20"


def test_a_fraction_in_a_text_is_dropped_however_long_it_is() -> None:
    """K33: read as a float, 999999999 ns before midnight was the next day."""
    assert key_of(day("data.d", tz=BERLIN, unit="s"), "1795129199.999999999") == "2026-11-19"
    assert key_of(day("data.d", tz=BERLIN, unit="ms"), "1795129199999.9999999999") == "2026-11-19"
    assert key_of(hour("data.d", tz=BERLIN, unit="us"), "1.7951291999999999999E15") == "2026-11-19T22:00:00Z"
    assert key_of(day("data.d", tz=BERLIN, unit="s"), "1795129200.000000000") == "2026-11-20"
    assert key_of(day("data.d", tz=BERLIN, unit="d"), "20776.99999999999999999") == "2026-11-19"
    assert key_of(day("data.d", tz=BERLIN, unit="ns"), 1_795_129_199_999_999_999) == "2026-11-19"
    assert key_of(day("data.d", tz=BERLIN, unit="ns"), "-0.5") == "1970-01-01"


def test_days_since_the_epoch_are_days_in_any_zone() -> None:
    """K33: Debezium's io.debezium.time.Date."""
    assert key_of(day("data.d", tz=AUCKLAND, unit="d"), 20777) == "2026-11-20"
    assert key_of(day("data.d", tz=AUCKLAND, unit="d"), -1) == "1969-12-31"
    assert key_of(hour("data.d", tz=AUCKLAND, unit="d"), 20777) is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "",
        "noon",
        "2026-11-20T00:00:00",
        "2026-11-31",
        1_795_129_200,
        0.5,
        [1],
        {"x": 1},
        "1795129200",
    ],
)
def test_any_other_value_has_no_key(value: object) -> None:
    """K35: also a number without a unit, and a time without a zone."""
    assert key_of(day("data.d", tz=BERLIN), value) is None


@pytest.mark.parametrize("value", [10**15, -(10**15), 1e300, float(2**63), "9" * 20])
def test_a_number_beyond_the_calendar_has_no_key(value: object) -> None:
    """K35"""
    assert key_of(day("data.d", tz=BERLIN, unit="s"), value) is None
    assert key_of(day("data.d", tz=BERLIN, unit="d"), value) is None


@pytest.mark.parametrize(
    ("function", "first", "last"),
    [
        (day, "2010-03-03T13:00:00Z", "2010-03-04T15:59:59Z"),
        (week, "2010-02-28T13:00:00Z", "2010-03-07T15:59:59Z"),
        (month, "2010-02-28T13:00:00Z", "2010-03-31T15:59:59Z"),
    ],
)
def test_the_reach_of_a_path_is_no_shorter_than_a_period_whose_clock_is_set_back_by_three_hours(
    function: Callable[..., str], first: str, last: str
) -> None:
    """It was two hours short, so a wait whose key is the end of such a day looked back too little."""
    by = function("data.d", tz="Antarctica/Casey")
    assert key_of(by, first) == key_of(by, last)
    assert parse_path(by).reach > datetime.fromisoformat(last) - datetime.fromisoformat(first)


def test_offsets_count_in_the_calendar_over_both_changes_of_the_clock() -> None:
    """K36: London's days of 23 and 25 hours; an exact day leaves the day, or stays in it."""
    for first, days in (("2026-03-28", 3), ("2026-10-24", 3)):
        for n in range(days):
            here = date.fromisoformat(first) + timedelta(days=n)
            midnight = datetime(here.year, here.month, here.day, tzinfo=ZoneInfo(LONDON)).astimezone(UTC)
            after = key_of(day("data.d", tz=LONDON, offset=1), midnight.isoformat())
            assert after == (here + timedelta(days=1)).isoformat()


def test_an_hour_that_the_clock_shows_twice_is_two_and_a_skipped_one_none() -> None:
    """K32, K36"""
    twice = [key_of(hour("data.d", tz=BERLIN), f"2026-10-25T0{n}:30:00Z") for n in range(3)]
    assert twice == ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"]
    assert key_of(hour("data.d", tz="Asia/Kolkata"), "2026-11-20T05:00:00Z") == "2026-11-20T04:30:00Z"
    assert key_of("hour(data.d, Europe/Berlin) + 1d", "2026-10-24T06:00:00Z") == "2026-10-25T07:00:00Z"
    assert key_of("hour(data.d, Europe/Berlin) + 24h", "2026-10-24T06:00:00Z") == "2026-10-25T06:00:00Z"
    assert key_of("hour(data.d, Europe/Berlin) + 1d", "2026-03-28T01:30:00Z") == "2026-03-29T01:00:00Z"


@pytest.mark.parametrize(
    ("zone", "moment", "begins"),
    [
        ("Pacific/Chatham", "2026-04-04T13:14:59Z", "2026-04-04T12:15:00Z"),  # 02:59 by the clock
        ("Pacific/Chatham", "2026-04-04T13:59:59Z", "2026-04-04T13:15:00Z"),  # 03:44
        ("Pacific/Chatham", "2026-04-04T14:00:00Z", "2026-04-04T14:00:00Z"),  # 02:45 again
        ("Pacific/Chatham", "2026-04-04T14:14:59.9Z", "2026-04-04T14:00:00Z"),
        ("Pacific/Chatham", "2026-04-04T14:15:00Z", "2026-04-04T14:15:00Z"),  # 03:00 again
        ("Pacific/Chatham", "2026-09-26T13:59:59Z", "2026-09-26T13:15:00Z"),  # 02:44
        ("Pacific/Chatham", "2026-09-26T14:05:00Z", "2026-09-26T14:00:00Z"),  # 03:50, after the gap
        ("Pacific/Chatham", "2026-09-26T14:15:00Z", "2026-09-26T14:15:00Z"),  # 04:00
        ("Australia/Lord_Howe", "2026-10-03T15:45:00Z", "2026-10-03T15:30:00Z"),  # 02:45, after the gap
        ("Australia/Lord_Howe", "2026-04-04T14:59:59Z", "2026-04-04T14:00:00Z"),  # 01:59
        ("Australia/Lord_Howe", "2026-04-04T15:15:00Z", "2026-04-04T15:00:00Z"),  # 01:45 again
        ("Australia/Lord_Howe", "2026-04-04T15:30:00Z", "2026-04-04T15:30:00Z"),  # 02:00
    ],
)
def test_an_hour_in_which_the_clock_is_set_begins_anew_there(zone: str, moment: str, begins: str) -> None:
    """K32: 03:50 on Chatham belonged to the hour of 04:00, and 02:50 to one that had ended before another."""
    assert key_of(hour("data.d", tz=zone), moment) == begins
    assert key_of(hour("data.d", tz=zone), begins) == begins


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(2037, 1, 1)),  # noqa: DTZ001
    st.integers(0, 7200),
    st.sampled_from(("Pacific/Chatham", "Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Apia", BERLIN)),
)
def test_hours_follow_each_other_as_time_does(moment: datetime, later: int, zone: str) -> None:
    """K32: no hour begins after a moment of it, and none contains moments of another."""
    first = moment.replace(tzinfo=UTC)
    second = first + timedelta(seconds=later)
    keys = [key_of(hour("data.d", tz=zone), each.isoformat()) for each in (first, second)]
    starts = [datetime.fromisoformat(key or "") for key in keys]
    assert starts[0] <= starts[1]
    assert all(
        start <= each < start + timedelta(hours=1)
        for start, each in zip(starts, (first, second), strict=True)
    )


def test_weeks_and_months_move_over_the_end_of_a_year() -> None:
    """K37"""
    assert key_of(week("data.d", tz="UTC", offset=1), "2026-12-31T00:00:00Z") == "2027-W01"
    assert key_of(week("data.d", tz="UTC", offset=-1), "2026-01-01T00:00:00Z") == "2025-W52"
    assert key_of(month("data.d", tz="UTC", offset=1), "2026-12-31T00:00:00Z") == "2027-01"
    assert key_of(month("data.d", tz="UTC", offset=-12), "2026-01-31T00:00:00Z") == "2025-01"


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)),  # noqa: DTZ001
    st.sampled_from((BERLIN, LONDON, AUCKLAND, "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu")),
    st.integers(-40, 40),
)
def test_keys_are_those_of_the_local_calendar(moment: datetime, zone: str, offset: int) -> None:
    """K32, K36 against zoneinfo."""
    text = moment.replace(tzinfo=UTC).isoformat()
    local = moment.replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
    moved = local.date() + timedelta(days=offset)
    assert key_of(day("data.d", tz=zone, offset=offset), text) == moved.isoformat()
    in_weeks = (local.date() + timedelta(weeks=offset)).isocalendar()
    assert key_of(week("data.d", tz=zone, offset=offset), text) == f"{in_weeks.year}-W{in_weeks.week:02}"
    assert key_of(month("data.d", tz=zone), text) == f"{local:%Y-%m}"
    begins = key_of(hour("data.d", tz=zone), text)
    assert begins is not None
    start = datetime.fromisoformat(begins)
    assert start <= moment.replace(tzinfo=UTC) < start + timedelta(minutes=90)
    assert start.astimezone(ZoneInfo(zone)).strftime("%d %H:%M") in (f"{local:%d %H}:00", f"{local:%d %H}:30")


@pytest.mark.parametrize(
    "by",
    [
        day("data.d", tz=BERLIN),
        day("data.d", tz=ZoneInfo(BERLIN), unit="ms", offset=-3),
        hour("time", tz="UTC", offset=5),
        week("data.\u00fc x, y", tz="America/Argentina/Buenos_Aires", offset=1),
        month("subject", tz="Etc/GMT+5", offset=-1),
        [day("data.d", tz=BERLIN), "data.region"],
    ],
)
def test_it_travels_as_text_and_as_json(by: Any) -> None:
    """K30"""
    condition = event("t", by=by)
    assert parse(str(condition)) == condition == from_json(condition.to_json())
    assert pickle.loads(pickle.dumps(condition)) == condition
    counted = count(event("t"), 2, distinct=by)
    assert parse(str(counted)) == counted == from_json(counted.to_json())


def test_the_text_of_a_condition_may_call_them() -> None:
    written = 'event("t", by=day("data.d", tz="Europe/Berlin", unit="ms", offset=1))'
    assert parse(written) == event("t", by="day(data.d, Europe/Berlin, ms) + 1d")
    assert parse('count(event("t"), 24, distinct=hour("data.d", "UTC"))') == count(
        event("t"), 24, distinct="hour(data.d, UTC)"
    )


def key_of_wait(key: Any) -> str:
    """As waits and rehearsals compute it."""
    return canonical_key(zoned_key(key, None))


def test_in_a_key_they_hold_a_value() -> None:
    """K31"""
    assert key_of_wait(day(MIDNIGHT, tz=BERLIN)) == "2026-11-20"
    assert key_of_wait(day("1795129200000", tz=BERLIN, unit="ms", offset=-1)) == "2026-11-19"
    assert key_of_wait([week(MIDNIGHT, tz=BERLIN), "eu"]) == '["2026-W47","eu"]'
    assert key_of_wait(month("2026-11-20", tz="UTC")) == "2026-11"
    index: MatcherIndex[str] = MatcherIndex()
    index.add("w", event("t", by=day("data.d", tz=BERLIN)), key_of_wait(day(MIDNIGHT, tz=BERLIN)))
    assert index.lookup(Event.of("t", "/s", data={"d": "2026-11-20T22:59:59Z"}))[0].key == "2026-11-20"
    assert index.lookup(Event.of("t", "/s", data={"d": "2026-11-20T23:00:00Z"})) == []
    sent = Event.of("t", "/s", time=MIDNIGHT, data={"d": MIDNIGHT})
    assert rehearse(event("t", by=day("data.d", tz=BERLIN)), [sent], key=day(MIDNIGHT, tz=BERLIN))


def test_a_text_of_an_event_that_looks_like_one_is_text() -> None:
    text = "day(2026-11-19T23:00:00Z, Europe/Berlin)"
    assert key_of("data.d", text) == text == canonical_key(text)


def test_the_zone_of_a_dag_is_put_in_where_none_is_named() -> None:
    """K38"""
    open_ = count(event("t", by=day("data.d")), 2, distinct=hour("data.d")) & event(
        "u", by=week("time", tz="UTC")
    )
    assert in_zone(open_, BERLIN) == count(
        event("t", by=day("data.d", tz=BERLIN)), 2, distinct=hour("data.d", tz=BERLIN)
    ) & event("u", by=week("time", tz="UTC"))
    named = event("t", by=day("data.d", tz=BERLIN))
    assert in_zone(named, LONDON) is named


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: event("t", by=day("data.d")).check(), "day(data.d) names no time zone: write day("),
        (lambda: count(event("t"), 2, distinct=hour("data.d")).to_json(), "hour(data.d) names no time zone"),
        (lambda: day("data.d", tz="Europe/Berln"), "is not in the IANA database: did you mean"),
        (lambda: day("data.d", tz=5), 'day(tz=5): give a name such as "Europe/Berlin"'),
        (lambda: day("data.d", tz=BERLIN, unit="min"), "day(unit='min'): give one of s, ms, us, ns, d"),
        (lambda: day("data.d", tz=BERLIN, offset=1.5), "day(offset=1.5): give a whole number of days"),
        (lambda: day("data.d", tz=BERLIN, offset=400), "an offset of at most 366d"),
        (lambda: day(5, tz=BERLIN), "day() is given 5: give a path, or a value"),
        (lambda: event("t", by="day(data.d, Europe/Berlin) + 1h"), "an offset of day() is in d or w"),
        (lambda: event("t", by="day(data.d + 1d, UTC)"), "the offset stands after the bracket"),
        (lambda: event("t", by="day(day(data.d, UTC), UTC)"), "the offset stands after the bracket"),
        (lambda: event("t", by="day(data.d[0], UTC)"), "items of lists cannot be reached"),
        (lambda: event("t", by="days(data.d, UTC)"), "is not a path"),
        (lambda: key_of_wait(day(MIDNIGHT)), "names no time zone"),
        (lambda: key_of_wait(day("2026-11-20", tz=BERLIN)), "a date has no time, so its day in"),
        (lambda: key_of_wait(day("None", tz=BERLIN)), "'None' is not a time with a zone"),
        (lambda: key_of_wait(day("1795129200", tz=BERLIN)), 'numbers need unit="s", "ms", "us", "ns" or "d"'),
        (lambda: key_of_wait(day("2026-11-20T00:00:00", tz=BERLIN)), "is not a time with a zone"),
    ],
)  # fmt: skip
def test_an_error_says_what_to_write(use: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        use()
    assert message in str(caught.value)
