"""Which cron expressions are accepted, in what spelling, and the errors for all others."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st
from interlock.conditions.errors import ConditionError
from interlock.conditions.nodes.cron import MAX_CRON_CHARS, parse


@pytest.mark.parametrize(
    ("given_text", "kept"),
    [
        ("0 6 * * *", "0 6 * * *"),
        ("  0\t6  * * * \n", "0 6 * * *"),
        ("0 0 1 jan mon", "0 0 1 JAN MON"),
        ("@hourly", "0 * * * *"),
        ("@Daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        (" @annually ", "0 0 1 1 *"),
        ("5,10-20/5 */2 l * *", "5,10-20/5 */2 L * *"),
        ("0 0 * * mon#1,fri#3", "0 0 * * MON#1,FRI#3"),
        ("0 0 * * l5", "0 0 * * L5"),
        ("0 0 15,L feb 5-7", "0 0 15,L FEB 5-7"),
    ],
)
def test_an_expression_is_kept_in_one_spelling(given_text: str, kept: str) -> None:
    assert parse(given_text).text == kept
    assert parse(kept) == parse(given_text)


@pytest.mark.parametrize(
    ("expression", "every_hour", "repeats"),
    [
        ("* * * * *", True, True),
        ("30 * * * 1", True, True),
        ("30 0-23 * * *", True, True),
        ("*/15 2 * * *", False, True),
        ("0 */2 * * *", False, True),
        ("0,30 2 * * *", False, False),
        ("0 0,*/12 * * *", False, False),
        ("0 0 * * *", False, False),
    ],
)
def test_whether_it_runs_by_real_time_depends_on_minute_and_hour(
    expression: str, every_hour: bool, repeats: bool
) -> None:
    found = parse(expression)
    assert (found.every_hour, found.repeats) == (every_hour, repeats)


@pytest.mark.parametrize("prefix", ["CRON_TZ=", "TZ="])
def test_a_time_zone_in_the_expression_is_an_error_that_shows_the_argument(prefix: str) -> None:
    """robfig/cron, of Kubernetes and Argo, reads it there. The error spoke of seconds and years."""
    with pytest.raises(ConditionError) as caught:
        parse(f"{prefix}Europe/Berlin 0 6 * * *")
    assert str(caught.value).endswith('give it as an argument, "0 6 * * *", timezone="Europe/Berlin"')
    assert "year" not in str(caught.value)


def test_what_is_advised_for_a_step_without_a_range_is_accepted() -> None:
    """The advice for 59/15 was 59-59/15, which is refused."""
    for expression in ("59/15 * * * *", "0 23/2 * * *", "5/15 * * * *"):
        with pytest.raises(ConditionError) as caught:
            parse(expression)
        advised = str(caught.value).rpartition("write ")[2]
        parse(" ".join(advised if "/" in field else field for field in expression.split()))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (None, "cron is a NoneType"),
        (5, "cron is a int"),
        ("", "has 0 fields: write five (minute, hour, day of the month, month, day of the week)"),
        ("0 0 * *", "has 4 fields"),
        ("0 0 0 * * *", "has 6 fields: write five"),
        ("0 0 1 1 * 2026", "has 6 fields"),
        ("@reboot", "is unknown: write five fields, or one of @hourly, @daily"),
        ("@daily @daily", "is unknown"),
        ("0 0 * * *" + " " * MAX_CRON_CHARS, "at most 256"),
        ("0 0 *\u00a0* *", "not ASCII"),
        ("\u0663 * * * *", "not ASCII"),
        ("60 * * * *", "minute: 60 is not in 0 to 59"),
        ("* 24 * * *", "hour: 24 is not in 0 to 23"),
        ("* * 0 * *", "day of the month: 0 is not in 1 to 31"),
        ("* * * 13 *", "month: 13 is not in 1 to 12, or JAN to DEC"),
        ("* * * * 8", "day of the week: 8 is not in 0 to 7, or SUN to SAT"),
        ("* * * mon *", "month: MON is not in"),
        ("* JAN * * *", "hour: JAN is not in 0 to 23"),
        ("* * * january *", "'JANUARY' cannot be read"),
        ("-5 * * * *", "'-5' cannot be read"),
        ("1,,2 * * * *", "'' cannot be read"),
        ("1,* * * * *", "'*' cannot be read: write * alone"),
        ("? * * * *", "'?' cannot be read"),
        ("0 0 ? * *", "'?' cannot be read"),
        ("0 0 15W * *", "'15W' cannot be read"),
        ("0 0 L-3 * *", "'L-3' cannot be read"),
        ("H * * * *", "'H' cannot be read"),
        ("R * * * *", "'R' cannot be read"),
        ("H(0-30)/10 * * * *", "cannot be read"),
        ("*/0 * * * *", "the step of '*/0' is not in 1 to 59"),
        ("*/90 * * * *", "the step of '*/90'"),
        ("0 */24 * * *", "the step of '*/24' is not in 1 to 23"),
        ("59/15 * * * *", "read in several ways: write 59"),
        ("5/15 * * * *", "read in several ways: write 5-59/15"),
        ("0 0 5-5 * *", "'5-5' is not an ascending range"),
        ("0 22-2 * * *", "'22-2' is not an ascending range: write two ranges, or a list"),
        ("0 0 * * fri-sun", "is not an ascending range: write two ranges, or a list (7 is a Sunday too)"),
        ("0 0 * * 1#6", "'1#6' cannot stand here"),
        ("0 0 * * 1#1,5", "'5' cannot stand here: write MON#1"),
        ("0 0 * * 8#1", "cannot stand here"),
        ("0 0 * * JAN#1", "JAN is not in 0 to 7"),
        ("0 0 * * L", "'L' cannot stand here"),
        ("0 0 * * 1-5#2", "cannot stand here"),
        ("0 0 */2 * 1", "day of the month */2 beside day of the week 1 is read in several ways"),
        ("0 0 1 * */2", "day of the month 1 beside day of the week */2"),
        ("0 0 1 * MON#1", "day of the month 1 beside day of the week MON#1"),
        ("0 0 1 * L5", "day of the month 1 beside day of the week L5"),
        ("0 0 30 2 *", "never occurs, no month in 2 has a day 30"),
        ("0 0 31 2,4,6,9,11 *", "never occurs, no month in 2,4,6,9,11 has a day 31"),
        ("0 0 31 2 1", "its day of the month never occurs"),
    ],
)
def test_an_invalid_expression_is_an_error_that_says_what_to_write(expression: object, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse(expression)
    assert message in str(caught.value)


def test_the_longest_lists_are_read() -> None:
    minutes = ",".join(str(n) for n in range(60))
    assert parse(f"{minutes} * * * *").text.startswith("0,1,2")


_items = st.sampled_from(
    ["*", "*/2", "*/7", "0", "1", "5", "29", "31", "1-5", "1-31/3", "0,2", "1,1", "L", "MON", "JAN-MAR",
     "5-7", "1#5", "L3", "7#1", "MON#2,WED#1", "L,15", "59", "2", "00", "H", "5/5", "6-1"]
)  # fmt: skip


@given(st.lists(_items, min_size=5, max_size=5))
def test_the_library_reads_every_accepted_expression(fields: list[str]) -> None:
    try:
        text = parse(" ".join(fields)).text
    except ConditionError:
        return
    new_year = datetime(2026, 1, 1, tzinfo=UTC)
    search = croniter(text, new_year, ret_type=datetime)
    after = search.get_next()
    assert search.get_prev(start_time=after) <= new_year < after


@given(st.text(max_size=60) | st.text("0123456789*/,-#LRHW? @abcjanmon", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConditionError):
        assert len(parse(text).text.split()) == 5
