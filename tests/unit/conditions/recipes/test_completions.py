"""`dag_run()`, `task_instance()`, `spark_application()`: which events they accept, and under which key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from interlock import Condition, ConditionError, Event, event
from interlock.conditions import (
    dag_run,
    day,
    from_json,
    hour,
    month,
    parse,
    spark_application,
    task_instance,
    week,
)
from interlock.events.completions import TaskInstanceCompletion

from .ends import NOON, ended, run_of


def task_ended(state: str = "success", task_id: str = "load", map_index: int = -1) -> Event:
    return TaskInstanceCompletion(
        run=run_of(), task_id=task_id, map_index=map_index, try_number=1, max_tries=0, state=state,
        started_at=NOON, ended_at=NOON,
    ).event()  # fmt: skip


def spark_ended(outcome: str = "succeeded", **data: object) -> Event:
    return Event.of(f"interlock.spark.application.{outcome}", "/spark/etl", subject="orders", data=data)


def keys(condition: Condition, sent: Event) -> set[str | None]:
    """The keys that the condition's matchers read from an event that they accept."""
    return {matcher.key_of(sent) for matcher in condition.matchers if matcher.accepts(sent)}


def test_a_dag_run_is_matched_by_its_dag_and_state() -> None:
    assert keys(dag_run("ingest"), ended()) == {None}
    assert keys(dag_run("ingest"), ended(state="failed")) == set()
    assert keys(dag_run("ingest"), ended(dag_id="other")) == set()
    assert keys(dag_run("ingest"), task_ended()) == set()
    assert keys(dag_run("ingest", state="failed"), ended(state="failed")) == {None}
    both = dag_run("ingest", state=["success", "failed"])
    assert keys(both, ended()) == keys(both, ended(state="failed")) == {None}


def test_a_deployment_that_is_named_counts_alone() -> None:
    assert keys(dag_run("ingest", deployment="airflow"), ended()) == {None}
    assert keys(dag_run("ingest", deployment="finance"), ended()) == set()
    assert keys(dag_run("ingest", deployment="fi nance"), ended(deployment="fi nance")) == {None}


@pytest.mark.parametrize(
    ("by", "key"),
    [
        ("logical_date", "2026-11-20T12:00:00Z"),
        ("ds", "2026-11-20"),
        ("partition_key", "eu"),
        ("run_id", "r"),
        ("data.run_type", "scheduled"),
        (["ds", "partition_key"], '["2026-11-20","eu"]'),
    ],
)
def test_the_key_is_read_by_the_name_airflow_has_for_it(by: Any, key: str) -> None:
    assert keys(dag_run("ingest", by=by), ended(partition_key="eu")) == {key}


@pytest.mark.parametrize(
    ("by", "path"),
    [
        (day("logical_date", tz="Europe/Berlin"), "day(data.logical_date, Europe/Berlin)"),
        (week("data.run_after", tz="UTC"), "week(data.run_after, UTC)"),
        (
            [hour("logical_date", tz="UTC"), "partition_key"],
            ("hour(data.logical_date, UTC)", "data.partition_key"),
        ),
    ],
)
def test_a_day_of_a_zone_is_read_by_the_name_airflow_has_for_it(by: Any, path: Any) -> None:
    assert dag_run("ingest", by=by).by == path  # type: ignore[union-attr]


def test_an_offset_moves_a_day_of_a_zone_in_the_calendar() -> None:
    """A report of London in summer time: the two midnights are 23 hours apart."""
    yesterday = dag_run("ingest", by=day("logical_date", tz="Europe/London"), offset=timedelta(days=1))
    assert keys(yesterday, ended(datetime(2026, 3, 29, tzinfo=UTC))) == {"2026-03-30"}
    assert keys(yesterday, ended(datetime(2026, 3, 29, 23, tzinfo=UTC))) == {"2026-03-31"}
    two_hours = dag_run("ingest", by=hour("logical_date", tz="Europe/London"), offset="2h")
    assert keys(two_hours, ended()) == {"2026-11-20T14:00:00Z"}


@pytest.mark.parametrize("by", ["logical_date", "ds"])
def test_a_run_without_a_logical_date_has_no_key_by_date_and_matches_without_one(by: str) -> None:
    assert keys(dag_run("ingest", by=by), ended(None)) == {None}
    assert dag_run("ingest", by=by).matchers[0].key_of(ended(None)) is None
    assert keys(dag_run("ingest", by="partition_key"), ended(None, partition_key="eu")) == {"eu"}
    assert keys(dag_run("ingest", dates={"2026-11-21": "2026-11-20"}), ended(None)) == set()


@pytest.mark.parametrize(
    ("by", "offset", "key"),
    [
        (None, timedelta(days=1), "2026-11-21T12:00:00Z"),
        (None, "90m", "2026-11-20T13:30:00Z"),
        ("logical_date", timedelta(hours=-13), "2026-11-19T23:00:00Z"),
        ("ds", "1d", "2026-11-21"),
        ("ds", timedelta(days=-20), "2026-10-31"),
        ("ds", timedelta(0), "2026-11-20"),
        (None, timedelta(0), "2026-11-20T12:00:00Z"),
    ],
)
def test_an_offset_waits_for_the_run_that_is_so_much_earlier_than_the_key(
    by: str | None, offset: Any, key: str
) -> None:
    assert keys(dag_run("ingest", by=by, offset=offset), ended()) == {key}


def test_a_day_is_not_moved_by_a_part_of_a_day() -> None:
    assert keys(dag_run("ingest", by="ds", offset="1h"), ended()) == {None}


def test_matchers_with_different_offsets_meet_under_one_key() -> None:
    today, yesterday = dag_run("ingest", by="ds"), dag_run("rates", by="ds", offset="1d")
    day_before = NOON - timedelta(days=1)
    assert keys(today, ended()) == keys(yesterday, ended(day_before, dag_id="rates")) == {"2026-11-20"}


def test_a_mapping_names_the_day_waited_for() -> None:
    monday = {"2026-11-23": "2026-11-20", date(2026, 11, 24): date(2026, 11, 23)}
    friday_or_monday = dag_run("ingest", dates=monday, label="ingest")
    assert keys(friday_or_monday, ended()) == {"2026-11-23"}
    assert keys(friday_or_monday, ended(NOON + timedelta(days=3))) == {"2026-11-24"}
    assert keys(friday_or_monday, ended(NOON + timedelta(days=1))) == set()
    assert friday_or_monday.labels == ("ingest", "ingest#2")


def test_a_day_may_map_to_one_of_several() -> None:
    either = dag_run("ingest", dates={"2026-11-23": ["2026-11-20", "2026-11-21"]})
    assert keys(either, ended()) == keys(either, ended(NOON + timedelta(days=1))) == {"2026-11-23"}


def test_a_long_mapping_stays_within_the_limits_of_a_matcher() -> None:
    first = date(2026, 1, 1)
    days = {first + timedelta(days=n): first + timedelta(days=n - 1) for n in range(400)}
    condition = dag_run("ingest", dates=days)
    assert keys(condition, ended()) == {"2026-11-21"}
    assert from_json(condition.to_json()) == condition
    with pytest.raises(ConditionError, match="at most 1,000"):
        dag_run("ingest", dates={first: [first + timedelta(days=n) for n in range(1001)]})


def test_a_mapping_may_name_days_in_a_time_zone() -> None:
    """At midnight in Berlin the run of the 20th has the `ds` of the 19th, so `ds` gave another day's run."""
    of_day = day("logical_date", tz="Europe/Berlin")
    monday = dag_run(
        "ingest",
        by=of_day,
        dates={"2026-11-23": "2026-11-20", "2026-11-24": "2026-11-23", "2026-07-01": "2026-06-30"},
    )
    assert keys(monday, ended(datetime(2026, 11, 19, 23, tzinfo=UTC))) == {"2026-11-23"}
    assert keys(monday, ended(datetime(2026, 11, 20, 22, 59, tzinfo=UTC))) == {"2026-11-23"}
    assert keys(monday, ended(datetime(2026, 11, 20, 23, tzinfo=UTC))) == set()
    assert keys(monday, ended(datetime(2026, 11, 22, 23, tzinfo=UTC))) == {"2026-11-24"}
    assert keys(monday, ended(datetime(2026, 6, 29, 22, tzinfo=UTC))) == {"2026-07-01"}
    assert keys(monday, ended(datetime(2026, 6, 30, 22, tzinfo=UTC))) == set()
    assert keys(monday, ended(None)) == set()
    assert from_json(monday.to_json()) == parse(str(monday)) == monday


def test_a_long_mapping_in_a_time_zone_names_each_day() -> None:
    first, zone = date(2027, 12, 1), "America/Argentina/ComodRivadavia"
    days = {first + timedelta(days=n): first + timedelta(days=n - 1) for n in range(400)}
    condition = dag_run("ingest", by=day("logical_date", tz=zone), dates=days)
    for number in range(0, 400, 7):
        moment = datetime.combine(first + timedelta(days=number - 1), time(3, 30), UTC)
        assert keys(condition, ended(moment)) == {str(first + timedelta(days=number))}
    assert keys(condition, ended(datetime(2029, 6, 1, tzinfo=UTC))) == set()


def test_a_task_instance_is_matched_by_dag_and_task() -> None:
    assert keys(task_instance("ingest", "load", by="ds"), task_ended()) == {"2026-11-20"}
    assert keys(task_instance("ingest", "load"), task_ended(task_id="other")) == set()
    assert keys(task_instance("ingest", "load"), ended()) == set()
    assert keys(task_instance("ingest", "load", state="skipped"), task_ended("skipped")) == {None}
    assert keys(task_instance("ingest", "load", deployment="airflow"), task_ended()) == {None}
    assert keys(task_instance("ingest", "load", deployment="other"), task_ended()) == set()
    mapped = task_instance("ingest", "load", by=["ds", "data.map_index"])
    assert keys(mapped, task_ended(map_index=3)) == {'["2026-11-20","3"]'}


def test_a_spark_application_is_matched_by_the_name_of_its_completion_event() -> None:
    orders = spark_application("orders", by="data.date")
    assert keys(orders, spark_ended(date="2026-11-20")) == {"2026-11-20"}
    assert keys(orders, spark_ended("failed", date="2026-11-20")) == set()
    assert keys(spark_application("orders", state="failed"), spark_ended("failed")) == {None}
    assert keys(spark_application("orders", application="etl"), spark_ended()) == {None}
    assert keys(spark_application("orders", application="other"), spark_ended()) == set()
    later = spark_application("orders", by="data.date", offset="1d")
    assert keys(later, spark_ended(date=20261120)) == {"2026-11-21"}


@pytest.mark.parametrize(
    "condition",
    [
        dag_run("ingest"),
        dag_run("ingest", state=["success", "failed"], offset=timedelta(days=-1), deployment="a b"),
        dag_run("ingest", dates={"2026-11-23": ["2026-11-20", "2026-11-21"], "2026-11-24": "2026-11-21"}),
        task_instance("ingest", "load", by=["ds", "data.map_index"], label="load"),
        spark_application("orders", by="data.date", offset="1d12h"),
    ],
    ids=str,
)
def test_it_travels_as_json_and_as_text(condition: Condition) -> None:
    assert from_json(condition.to_json()) == condition
    assert parse(str(condition)) == condition


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: dag_run(""), "dag_id is ''"),
        (lambda: dag_run("ingest_?"), "dag_id is 'ingest_\\?': Airflow has no such id"),
        (lambda: dag_run("my ingest"), "Airflow has no such id. It takes letters, digits"),
        (lambda: dag_run("ingest/load"), "Airflow has no such id"),
        (lambda: dag_run("x" * 251), "Airflow has no such id"),
        (lambda: task_instance("ingest", "group/load"), "task_id is 'group/load': Airflow has no such id"),
        (lambda: dag_run("a", state="succeeded"), "one of success, failed"),
        (lambda: dag_run("a", state=[]), "give one of success, failed"),
        (lambda: dag_run("a", state="skipped"), "one of success, failed"),
        (lambda: dag_run("a", by="partition_key", offset="1d"), 'by="logical_date", by="ds" or by=day'),
        (lambda: dag_run("a", by=day("ds", tz="UTC")), "ds is a day in UTC; write day"),
        (lambda: dag_run("a", by=day("logical_date", tz="UTC"), offset="1h"), "give whole days"),
        (lambda: dag_run("a", by=week("logical_date", tz="UTC"), offset="1d"), "give whole weeks"),
        (lambda: dag_run("a", by=month("logical_date", tz="UTC"), offset="30d"), "counts in months"),
        (lambda: dag_run("a", by=day("logical_date", tz="UTC", offset=1), offset="1d"), "only once"),
        (lambda: dag_run("a", offset="soon"), "'soon' is not a duration"),
        (lambda: dag_run("a", offset=1), "give a timedelta"),
        (lambda: dag_run("a", offset=-1), "a text such as '1d'. Earlier is positive: '1d' is a day before"),
        (lambda: dag_run("a", by="ds", offset="-1d"), r"timedelta\(days=-1\) a day after it"),
        (lambda: dag_run("a", offset=timedelta(days=400)), "at most 366 days"),
        (lambda: dag_run("a", offset="1d", dates={"2026-11-20": "2026-11-19"}), "not both"),
        (lambda: dag_run("a", dates={}), "a non-empty mapping {day: day waited for}"),
        (lambda: dag_run("a", dates={"2026-11-20": "yesterday"}), "'yesterday': write days"),
        (lambda: dag_run("a", dates={"2026-11-20": "2026-11-19"}, by="run_id"), 'by="ds" for days in UTC'),
        (
            lambda: dag_run("a", dates={"2026-11-20": "2026-11-19"}, by=day("logical_date")),
            "names no time zone: write by=day",
        ),
        (
            lambda: dag_run("a", dates={"2026-11-20": "2026-11-19"}, by=week("logical_date", tz="UTC")),
            "write by=day",
        ),
        (
            lambda: dag_run("a", dates={"2026-11-20": "2026-11-19"}, by=day("logical_date", "UTC", offset=1)),
            "dates= already gives the offset",
        ),
        (lambda: task_instance("a", ""), "task_id is ''"),
        (lambda: spark_application("a", state="success"), "one of succeeded, failed"),
        (lambda: spark_application("a", offset="1d"), "offset needs one path"),
    ],
)
def test_invalid_arguments_are_errors_when_the_dag_is_parsed(build: Any, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        build()


def test_any_path_takes_an_offset_with_spaces_around_its_sign() -> None:
    made = Event.of("t", "/s", time=NOON, data={"a+1d": "x", "n": 7, "day": "2026-11-20"})
    assert event("t", by="time + 30m").key_of(made) == "2026-11-20T12:30:00Z"
    assert event("t", by="data.day - 1w").key_of(made) == "2026-11-13"
    assert event("t", by="data.a+1d").key_of(made) == "x"
    assert event("t", by="data.n + 1d").key_of(made) is None
    with pytest.raises(ConditionError, match="'1x' is not a duration"):
        event("t", by="data.day + 1x")


def test_the_text_of_an_offset_in_a_path_stays_as_registrations_hold_it() -> None:
    """A durable subscription whose condition is written differently would lose what it has pending."""
    assert dag_run("ingest", offset="30d").by == "data.logical_date + 4w2d"
    assert dag_run("ingest", by="ds", offset=timedelta(days=-9)).by == "data.ds - 1w2d"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("key", r"dag_run\(key=\.\.\.\): write by="),
        ("execution_delta", "write offset="),
        ("execution_date_fn", "write dates="),
        ("external_task_id", r"write task_instance\(dag_id, task_id\)"),
        ("failed_states", "write fail_on= of the sensor"),
        ("ofset", "write offset="),
        ("map_index", "write one of state, by, offset, dates, deployment, label"),
    ],
)
def test_an_unknown_argument_is_an_error_that_says_what_to_write(name: str, message: str) -> None:
    given: Any = {name: "x"}
    with pytest.raises(ConditionError, match=message):
        dag_run("ingest", **given)
    with pytest.raises(ConditionError, match=message.replace("dag_run", "task_instance")):
        task_instance("ingest", "load", **given)


@pytest.mark.parametrize(
    ("build", "expected_text"),
    [
        (
            lambda: dag_run("d", by="date"),
            r"dag_run\('d'\): by=\"date\": its events have no attribute 'date'",
        ),
        (lambda: dag_run("d", by=["ds", "tenant"]), "its events have no attribute 'tenant'"),
        (lambda: dag_run("d", by="data.conf.region"), "the data of its events have no member 'conf'"),
        (lambda: dag_run("d", by="date + 1d"), "its events have no attribute 'date'"),
        (lambda: dag_run("d", by=day("date", tz="UTC")), "its events have no attribute 'date'"),
        (lambda: dag_run("d", by=day("data.date", tz="UTC")), "the data of its events have no member 'date'"),
        (lambda: dag_run("d", by="data.map_index"), "the data of its events have no member 'map_index'"),
        (lambda: task_instance("d", "t", by="map_index"), 'write by="data.map_index"'),
        (lambda: spark_application("orders", by="date"), 'write by="data.date"'),
        (lambda: spark_application("orders", by=["data.region", "ds"]), 'write by="data.ds"'),
        (lambda: spark_application("orders", by=hour("sent", tz="UTC")), 'write by="data.sent"'),
    ],
)
def test_a_key_that_no_such_event_has_is_refused_with_what_they_have(
    build: Callable[[], Condition], expected_text: str
) -> None:
    """`by="date"` is an attribute, and the date of a job is a member of its data: it was never met."""
    with pytest.raises(ConditionError, match=expected_text):
        build()


@pytest.mark.parametrize(
    ("made", "sent"),
    [
        (lambda by: dag_run("ingest", by=by), ended()),
        (lambda by: task_instance("ingest", "load", by=by), task_ended()),
    ],
    ids=["dag_run", "task_instance"],
)
def test_each_attribute_and_member_of_the_events_may_be_the_key(
    made: Callable[[str], Condition], sent: Event
) -> None:
    paths = [*sent.attributes, *(f"data.{member}" for member in sent.payload)]  # type: ignore[attr-defined]
    assert [path for path in paths if made(path).keyed] == paths
