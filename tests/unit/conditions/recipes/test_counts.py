"""Counts of completion events: a run or task instance that was cleared, and ended again, counts once."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable

import pytest
from interlock import Condition, ConditionError, Event, event
from interlock.conditions import (
    at_least,
    burst,
    count,
    dag_run,
    every_nth,
    from_json,
    parse,
    sequence,
    task_instance,
)
from interlock.conditions.filters import Any as AnyFilter
from interlock.conditions.filters import Exact, Prefix, Sql
from interlock.conditions.nodes.matcher import Matcher
from interlock.testing import dag_run_end, fires, task_instance_end

from .ends import ended


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
