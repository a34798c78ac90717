"""Counts of different values that the events of one key never have (Q9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from interlock import at_least, burst, count, dag_run, day, event, hour, month, param, task_instance, week
from interlock.conditions import Condition, ConditionError
from interlock.conditions.filters import Any as AnyOf
from interlock.conditions.filters import Exact
from interlock.conditions.nodes.countable import check_counts
from interlock.operators import EventSensor
from interlock.triggers.asset import ConditionTrigger

BERLIN, UTC = "Europe/Berlin", "UTC"


def of(by: Any, distinct: Any, n: int = 2) -> Condition:
    return count(event("t", by=by), n, distinct=distinct)


def runs(period: Callable[..., str], distinct: Callable[..., str], n: int, tz: str = BERLIN) -> Condition:
    return count(
        dag_run("x", by=period("logical_date", tz=tz)), n, distinct=distinct("data.logical_date", tz=tz)
    )


def pair(by: Any, distinct: Any, **fixed: str) -> Condition:
    return at_least(2, event("t", by=by, **fixed), event("u", by=by, **fixed), distinct=distinct)


NEVER: dict[str, Callable[[], Condition]] = {
    "the default is the key": lambda: count(dag_run("x", by="run_id"), 3),
    "the default is the key, of instances": lambda: count(
        task_instance("x", "y", by=["run_id", "data.map_index"]), 2
    ),
    "in a window": lambda: burst(dag_run("x", by="run_id", state="failed"), 3, "1h"),
    "the key": lambda: of("data.day", "data.day"),
    "a part of the key": lambda: of(["data.day", "data.x"], "data.x"),
    "both parts of the key": lambda: of(["data.day", "data.x"], ["data.x", "data.day"]),
    "the day of a time": lambda: of("data.at", day("data.at", tz=BERLIN)),
    "the week of a day": lambda: of(day("data.at", tz=BERLIN), week("data.at", tz=BERLIN)),
    "the day of an hour": lambda: of(hour("data.at", tz=BERLIN), day("data.at", tz=BERLIN, offset=1)),
    "a zone that is put in later": lambda: of(day("data.at"), month("data.at")),
    "a fixed value": lambda: count(event("t", subject="a"), 2, distinct="subject"),
    "a member that where fixes": lambda: count(
        event("t", where="data.shop == 'a' && data.n > 1"), 2, distinct="data.shop"
    ),
    "a fixed type": lambda: count(event("t"), 2, distinct="type"),
    "a parameter": lambda: count(event("t", subject=param("a")), 2, distinct="subject"),
    "two types": lambda: count(dag_run("x", state=["success", "failed"]), 3, distinct="type"),
    "8 days of a week": lambda: runs(week, day, 8),
    "25 hours of a day in UTC": lambda: runs(day, hour, 25, UTC),
    "25 hours of a ds": lambda: count(dag_run("x", by="ds"), 25, distinct=hour("data.logical_date", tz=UTC)),
    "a ds of a day in UTC": lambda: count(
        dag_run("x", by=day("logical_date", tz=UTC)), 2, distinct="data.ds"
    ),
    "a ds of a time": lambda: count(dag_run("x", by="logical_date"), 2, distinct="ds"),
    "a day of the ds before": lambda: count(
        dag_run("x", by="ds", offset="1d"), 2, distinct=day("data.logical_date", tz=UTC)
    ),
    "32 days of a month": lambda: runs(month, day, 32),
    "at_least by the key": lambda: pair("subject", "subject"),
    "at_least of a fixed value": lambda: pair(None, "subject", subject="a"),
    "below other nodes": lambda: (count(event("t"), 2, distinct="type") | event("u")).expires(after="1h"),
}
MAY: dict[str, Callable[[], Condition]] = {
    "every end of a run": lambda: count(dag_run("x", by="run_id"), 3, distinct=None),
    "the instances of a run": lambda: count(task_instance("x", "y", by="run_id"), 3),
    "the runs of a day": lambda: count(dag_run("x", by="ds"), 24),
    "24 hours of a day in UTC": lambda: runs(day, hour, 24, UTC),
    "25 hours of the day in October": lambda: runs(day, hour, 25),
    "7 days of a week": lambda: runs(week, day, 7),
    "31 days of a month": lambda: runs(month, day, 31),
    "2 months of a week": lambda: runs(week, month, 2),
    "5 weeks of a month": lambda: runs(month, week, 5),
    "24 hours of a ds": lambda: count(dag_run("x", by="ds"), 24, distinct=hour("data.logical_date", tz=UTC)),
    "2 ds of a day elsewhere": lambda: count(
        dag_run("x", by=day("logical_date", tz=BERLIN)), 2, distinct="ds"
    ),
    "a ds of other events": lambda: count(
        event("t", by="data.ds"), 25, distinct=hour("data.logical_date", tz=UTC)
    ),
    "hours of another zone": lambda: count(
        dag_run("x", by=day("logical_date", tz=UTC)), 25, distinct=hour("data.logical_date", tz=BERLIN)
    ),
    "the time of a day": lambda: of(day("data.at", tz=BERLIN), "data.at", 100),
    "days of another unit": lambda: of(day("data.at", tz=UTC), day("data.at", tz=UTC, unit="ms")),
    "numbers that are days or seconds": lambda: of("data.at", day("data.at", tz=UTC, unit="s")),
    "the hour that the clock skips": lambda: of(
        "hour(data.at, Europe/Berlin) + 1d", hour("data.at", tz=BERLIN)
    ),
    "a part beside the key": lambda: of("data.day", ["data.day", "data.x"], 100),
    "two of two types": lambda: count(dag_run("x", state=["success", "failed"]), 2, distinct="type"),
    "some of several values": lambda: count(
        event(filters=[AnyOf(Exact(type="a"), Exact(subject="b"))]), 9, distinct="type"
    ),
    "at_least of two values": lambda: at_least(
        2, event("t", subject="a"), event("u", subject="b"), distinct="subject"
    ),
    "at_least, one unknown": lambda: at_least(2, event("t", subject="a"), event("u"), distinct="subject"),
    "at_least by parts of a key": lambda: pair(["data.a", "data.b"], "data.c"),
}


@pytest.mark.parametrize("name", NEVER)
def test_a_count_that_no_key_reaches_is_an_error_that_says_what_to_write(name: str) -> None:
    """They parsed, and waited for ever."""
    with pytest.raises(ConditionError, match=r"is never met: .*(?:distinct=None|leave out distinct=)"):
        check_counts(NEVER[name]())


@pytest.mark.parametrize("name", MAY)
def test_a_count_that_may_be_reached_is_no_error(name: str) -> None:
    check_counts(MAY[name]())


def test_a_member_that_completion_events_do_not_have_is_an_error_that_lists_them() -> None:
    for path in ("data.date", day("data.day", tz=UTC), "data.map_index"):
        with pytest.raises(ConditionError, match="the members of their data are clear_number"):
            check_counts(count(dag_run("x", by="ds"), 3, distinct=path))
    check_counts(count(task_instance("x", "y", by="ds"), 3, distinct="data.map_index"))
    check_counts(count(event("t"), 3, distinct="data.date"))


@pytest.mark.parametrize("path", [hour("data.ds", tz=UTC), hour("ds", tz=BERLIN), "data.ds + 1h"])
def test_a_path_that_never_has_a_value_is_an_error(path: str) -> None:
    for condition in (
        count(dag_run("x", by="run_id"), 3, distinct=path),
        at_least(2, dag_run("x"), dag_run("y"), distinct=path),
    ):
        with pytest.raises(ConditionError, match=r"never has a value there.*: a day has no hour"):
            check_counts(condition)


@pytest.mark.parametrize(
    "make",
    [
        lambda never: EventSensor(task_id="wait", condition=never),
        lambda never: EventSensor(task_id="wait", condition=event("t"), fail_on=never),
        lambda never: ConditionTrigger(name="n", condition=never),
    ],
    ids=["condition", "fail_on", "ConditionTrigger"],
)
def test_it_is_an_import_error_of_the_dag_file(make: Callable[[Condition], object]) -> None:
    with pytest.raises(ConditionError, match="is never met: its events have at most 1 different value"):
        make(count(event("t", subject="a"), 2, distinct="subject"))


def test_an_at_least_with_too_few_values_says_how_many_its_matchers_can_have() -> None:
    """The error said that the values are the same, also where two of three differ."""
    never = at_least(
        3,
        event("t", subject="a"),
        event("u", subject="a"),
        event("v", subject="b"),
        event("w", subject="b"),
        distinct="subject",
    )
    with pytest.raises(ConditionError, match='at most 2 different values of "subject", and 3 are wanted'):
        check_counts(never)
