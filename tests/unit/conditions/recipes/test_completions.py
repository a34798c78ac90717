"""`dag_run()`, `task_instance()`, `spark_application()`: which events they accept, and under which key."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from interlock import Condition, ConditionError, Event, event
from interlock.conditions import (
    at_least,
    burst,
    count,
    dag_run,
    day,
    every_nth,
    from_json,
    hour,
    month,
    parse,
    sequence,
    spark_application,
    task_instance,
    week,
)
from interlock.conditions.filters import Any as AnyFilter
from interlock.conditions.filters import Exact, Prefix, Sql
from interlock.conditions.nodes.matcher import Matcher
from interlock.events.completions import DagRun, DagRunCompletion, TaskInstanceCompletion
from interlock.testing import dag_run_end, fires, task_instance_end

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def run_of(day: datetime | None = NOON, dag_id: str = "ingest", **given: Any) -> DagRun:
    about = {"deployment": "airflow", "run_id": "r", "run_type": "scheduled", "run_after": NOON}
    return DagRun(dag_id=dag_id, logical_date=day, **(about | given))


def ended(day: datetime | None = NOON, state: str = "success", **given: Any) -> Event:
    return DagRunCompletion(run=run_of(day, **given), state=state, started_at=NOON, ended_at=NOON).event()


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


def hourly(hours: Iterable[int], clear_number: int = 0) -> list[Event]:
    """The ends of runs of an hourly DAG, which were cleared so often."""
    return [
        dag_run_end(
            "hourly",
            logical_date=f"2026-11-20T{number:02}:00:00Z",
            at=f"2026-11-20T{number:02}:59:00Z" if not clear_number else "2026-11-21T02:00:00Z",
            clear_number=clear_number,
        )
        for number in hours
    ]


def mapped(indexes: Iterable[int], clear_number: int = 0) -> list[Event]:
    return [
        task_instance_end(
            "etl",
            "load",
            logical_date="2026-11-20T00:00:00Z",
            map_index=number,
            clear_number=clear_number,
            at=f"2026-11-20T0{clear_number}:0{number}:00Z",
        )
        for number in indexes
    ]


def test_twenty_three_hourly_runs_and_the_rerun_of_one_are_not_all_of_the_day() -> None:
    """A report of an ExternalTaskSensor over 24 dates: a clear emits another end of the same run."""
    day = count(dag_run("hourly", by="ds"), 24)
    assert not fires(day, [*hourly(range(23)), *hourly([5], 1)], key="2026-11-20")
    fired = fires(day, [*hourly(range(23)), *hourly([5], 1), *hourly([23])], key="2026-11-20").firing
    assert len({part.match.event.payload["run_id"] for part in fired.taking_part}) == 24
    every_end = count(dag_run("hourly", by="ds"), 24, distinct=None)
    assert fires(every_end, [*hourly(range(23)), *hourly([5], 1)], key="2026-11-20")


def test_a_mapped_instance_that_was_cleared_is_one_of_three() -> None:
    """A report of mapped tasks: indexes 0, 1 and 1 again after a clear."""
    three = count(task_instance("etl", "load", by="logical_date"), 3)
    assert not fires(three, [*mapped([0, 1]), *mapped([1], 1)], key="2026-11-20T00:00:00Z")
    assert fires(three, [*mapped([0, 1]), *mapped([1], 1), *mapped([2])], key="2026-11-20T00:00:00Z")


@pytest.mark.parametrize("presets", [every_nth, lambda matcher, n: burst(matcher, n, "1d")])
def test_the_presets_that_count_count_a_run_once(presets: Callable[..., Condition]) -> None:
    assert not fires(presets(dag_run("hourly"), 3), [*hourly([0, 1]), *hourly([1], 1)])
    assert fires(presets(dag_run("hourly"), 3), hourly([0, 1, 2]))


def test_the_default_of_count_travels_as_a_path_and_not_with_the_matcher() -> None:
    runs = count(dag_run("hourly", by="ds"), 24)
    assert str(runs).endswith(', 24, distinct="data.run_id")')
    assert dag_run("hourly", by="ds") == from_json(dag_run("hourly", by="ds").to_json())
    assert parse('count(dag_run("hourly", by="ds"), 24)') == runs == from_json(runs.to_json())
    every_end = count(dag_run("hourly", by="ds"), 24, distinct=None)
    assert parse('count(dag_run("hourly", by="ds"), 24, distinct=None)') == every_end == parse(str(every_end))
    labelled = dag_run("hourly", label="hours")
    assert count(labelled.changed(label="other"), 3) == count(dag_run("hourly", label="other"), 3)


RUNS = "interlock.airflow.dag_run.succeeded"


@pytest.mark.parametrize(
    "runs",
    [
        parse(str(dag_run("hourly", by="ds"))),
        from_json(dag_run("hourly", by="ds").to_json()),
        event(RUNS, subject="hourly", by="data.ds"),
        event(RUNS, by="data.ds"),
        event(RUNS, filters=[Prefix(subject="hour")], by="data.ds"),
        event(filters=[Prefix(type="interlock.airflow.dag_run.")], subject="hourly", by="data.ds"),
        event(subject="hourly", where=f"event.type == '{RUNS}' && data.run_type != 'manual'", by="data.ds"),
        dag_run("hourly", by="ds", state=["success", "failed"]),
        parse(str(dag_run("hourly", by="ds", state=["success", "failed"]))),
        pickle.loads(pickle.dumps(dag_run("hourly", by="ds", label="hours", deployment="airflow"))),
    ],
    ids=str,
)
def test_the_default_of_count_follows_from_the_type_however_the_matcher_was_made(runs: Matcher) -> None:
    """23 hours and a rerun fired after str() and parse(), after JSON, and with event()."""
    condition = count(runs, 24)
    for same in (condition, parse(str(condition)), from_json(condition.to_json())):
        assert same == condition
        assert not fires(same, [*hourly(range(23)), *hourly([5], 1)], key="2026-11-20")
        assert fires(same, hourly(range(24)), key="2026-11-20")


def test_runs_of_different_dags_with_one_run_id_count_apart() -> None:
    three = count(event(RUNS, filters=[Prefix(subject="ingest_")]), 3)
    assert fires(three, [ended(dag_id=f"ingest_{n}") for n in range(3)])
    instances = event("interlock.airflow.task_instance.succeeded")
    assert count(instances, 2).distinct == ("subject", "data.run_id", "data.map_index")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("matcher", "paths"),
    [
        (event(where="event.type in ['interlock.airflow.dag_run.succeeded', 'x.y']"), None),
        (event(where="event.type.endsWith('.dag_run.succeeded')"), None),
        (event(where="event.type.matches('^(interlock.airflow.dag_run|y)')"), None),
        (event(subject="a", filters=[Sql(f"type IN ('{RUNS}', 'x.y')")]), None),
        (event(subject="a", filters=[Sql(f"type = '{RUNS}' OR type LIKE 'x.y%'")]), None),
        (event(where="event.type in ['interlock.airflow.dag_run.succeeded']", subject="a"), "data.run_id"),
        (
            event(where="event.type.startsWith('interlock.airflow.task_instance.')", subject="a"),
            ("data.run_id", "data.map_index"),
        ),
        (event(subject="a", filters=[Sql(f"type = '{RUNS}'")]), "data.run_id"),
        (event(subject="a", filters=[Sql("type LIKE 'interlock.airflow.dag_run.%'")]), "data.run_id"),
        (event(subject="a", filters=[Sql("type LIKE 'interlock.%'")]), None),
        (event(subject="a", filters=[Sql(f"type = '{RUNS}' OR level = 1")]), None),
        (event(subject="a", filters=[Sql("EXISTS type")]), None),
        (event(subject="a", where="has(event.type)"), None),
    ],
    ids=str,
)
def test_the_default_of_count_follows_a_type_that_an_expression_asks_for(
    matcher: Matcher, paths: object
) -> None:
    """Such a count of 24 fired with 23 hours and one rerun."""
    assert count(matcher, 2).distinct == paths  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "matcher",
    [
        event("order"),
        event(filters=[Prefix(type="interlock.")]),
        event(filters=[Prefix(type="interlock.airflow.")]),
        event(filters=[~Exact(type=RUNS)]),
        event(filters=[AnyFilter(Exact(type=RUNS), Exact(type="interlock.airflow.task_instance.failed"))]),
        event(filters=[AnyFilter(Exact(type=RUNS), Exact(subject="hourly"))]),
    ],
    ids=str,
)
def test_a_matcher_that_accepts_other_events_too_has_no_default_of_count(matcher: Matcher) -> None:
    assert count(matcher, 2).distinct is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "build",
    [
        lambda run: count(run, 2) & run,
        lambda run: run & count(run, 2),
        lambda run: sequence(count(run, 2), run),
        lambda run: (count(run, 2) & ~dag_run("b")).within("1h") | run,
        lambda run: count(run, 2, distinct=None) & run,
        lambda run: run.quiet("1h") | count(run, 2) | at_least(2, run, dag_run("b"), dag_run("c")),
    ],
)
def test_a_run_that_also_stands_alone_goes_with_the_default_of_count(
    build: Callable[[Matcher], Condition],
) -> None:
    """`count(dag_run("a"), 2) & dag_run("a")` was an error, though its author wrote no distinct=."""
    condition = build(dag_run("a"))
    condition.check()
    assert parse(str(condition)) == condition == from_json(condition.to_json())


def test_a_run_that_also_stands_alone_is_counted_once() -> None:
    condition = count(dag_run("hourly"), 2) & dag_run("hourly")
    assert not fires(condition, [*hourly([1]), *hourly([1], 1)])
    assert fires(condition, hourly([1, 2]))


@pytest.mark.parametrize(
    "build",
    [
        lambda run: count(run, 2) & count(run, 3, distinct=None),
        lambda run: count(run, 2, distinct="data.ds") & run,
        lambda run: count(run, 2) & at_least(2, run, dag_run("b"), distinct="data.ds"),
    ],
)
def test_a_written_distinct_that_differs_stays_an_error(build: Callable[[Matcher], Condition]) -> None:
    with pytest.raises(ConditionError, match="different distinct="):
        build(dag_run("a"))


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
            "the days already say the offset",
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
    ("build", "said"),
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
    build: Callable[[], Condition], said: str
) -> None:
    """`by="date"` is an attribute, and the date of a job is a member of its data: it was never met."""
    with pytest.raises(ConditionError, match=said):
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
