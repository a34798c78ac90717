"""Matchers for Interlock's own events that accept none of them: they parsed, and waited for ever (M13)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from interlock import day, event, param
from interlock.conditions import Condition, ConditionError, count
from interlock.conditions.filters import Any, Exact, Prefix
from interlock.conditions.nodes.reachable import check_can_be_met
from interlock.events.taxonomy import EMITTED

RUN, TASK = "interlock.airflow.dag_run.succeeded", "interlock.airflow.task_instance.failed"
ENDS = [Any(Exact(type=RUN), Exact(type="interlock.airflow.dag_run.failed"))]

NEVER: dict[str, tuple[Callable[[], Condition], str]] = {
    "another word": (
        lambda: event("interlock.airflow.dag_run.success"),
        'did you mean "interlock.airflow.dag_run.succeeded"?',
    ),
    "another name": (lambda: event("interlock.airflow.dagrun.failed"), '"interlock.airflow.dag_run.failed"?'),
    "of Spark": (
        lambda: event("interlock.spark.application.success"), '"interlock.spark.application.succeeded"?',
    ),
    "another end": (
        lambda: event("interlock.spark.application.done"),
        'it emits "interlock.spark.application.failed", "interlock.spark.application.started", "',
    ),
    "by of no member": (lambda: event(RUN, by="data.logical_dat"), "no such member. They have clear_number"),
    "by of a member of tasks": (lambda: event(RUN, by="data.map_index"), "have no such member"),
    "by of a day": (lambda: event(RUN, by=day("data.date", tz="UTC")), "have no such member"),
    "by with an offset": (lambda: event(filters=ENDS, by="data.date + 1d"), "have no such member"),
    "by of one of several": (lambda: event(TASK, by=["subject", "data.task"]), "have no such member"),
    "by of an attribute": (lambda: event(RUN, by="state"), "for a member of their data write data.state"),
    "where": (lambda: event(RUN, where="data.status == 'success'"), "where reads data.status, and"),
    "a part of where": (
        lambda: event(TASK, where="data.state == 'failed' && data.tries > 1"), "where reads data.tries, and",
    ),
    "source of a plain record": (
        lambda: event("org.apache.kafka.record", source="/raw_orders"), "is the name of its topic, which has",
    ),
    "subject of a run": (lambda: event(RUN, subject="ingest_?"), "is the id of a DAG. Airflow's ids are"),
    "subject of a task": (lambda: event(TASK, subject="load"), 'is "dag/task", the ids of a DAG and its'),
    "subject of ends": (lambda: event(filters=ENDS, subject="ingest/load"), "is the id of a DAG"),
    "state of another word": (
        lambda: event(RUN, where="data.state == 'succeeded'"), "the state of its events is success",
    ),
    "state of another type": (
        lambda: event(filters=ENDS, where="data.state == 'skip' && data.ds == 'x'"),
        "the state of its events is failed or skipped or success",
    ),
    "below other nodes": (
        lambda: count(event(filters=ENDS, where="data.x == 1"), 2), "where reads data.x, and",
    ),
}  # fmt: skip
MAY: dict[str, Callable[[], Condition]] = {
    "a member": lambda: event(RUN, by="data.logical_date", where="data.run_type == 'manual'"),
    "a day": lambda: event(RUN, by=day("data.run_after", tz="UTC")),
    "an attribute": lambda: event(RUN, by="ds"),
    "a topic": lambda: event("org.apache.kafka.record", source="raw.orders-v1", subject="/any key"),
    "plain records": lambda: event("org.apache.kafka.record"),
    "a topic that is a parameter": lambda: event("org.apache.kafka.record", source=param("topic")),
    "a subject of a task": lambda: event(TASK, subject="größen.v2/group.load_1"),
    "a state": lambda: event(TASK, subject="a/b", where="data.state == 'failed'"),
    "one of the states": lambda: event(filters=ENDS, subject="a", where="data.state == 'failed'"),
    "a subject of either": lambda: event(filters=[Prefix(type="interlock.airflow.")], subject="a/b"),
    "a subject that is a parameter": lambda: event(RUN, subject=param("dag")),
    "runs and tasks": lambda: event(filters=[Prefix(type="interlock.airflow.")], by="data.map_index"),
    "any type": lambda: event(by="data.x", where="data.y == 1"),
    "of Spark": lambda: event("interlock.spark.application.succeeded", by="data.date", where="data.x == 1"),
    "a type of others": lambda: event("interlocked.airflow.dag_run"),
    "where or": lambda: event(RUN, where="data.run_type == 'manual' || data.x == 1"),
    "where has": lambda: event(RUN, where="!has(data.x) || data.x == 1"),
    "where with a parameter": lambda: event(RUN, where="data.run_type == param.kind && data.x == 1"),
    "a type that is a parameter": lambda: event(param("t"), by="data.x"),
}


@pytest.mark.parametrize("name", NEVER)
def test_a_matcher_that_no_event_of_ours_meets_is_an_error_that_says_what_there_is(name: str) -> None:
    make, expected_text = NEVER[name]
    with pytest.raises(ConditionError) as caught:
        check_can_be_met(make())
    assert expected_text in str(caught.value)


@pytest.mark.parametrize("name", MAY)
def test_a_matcher_that_an_event_may_meet_is_none(name: str) -> None:
    check_can_be_met(MAY[name]())


@pytest.mark.parametrize("wanted", EMITTED)
def test_each_type_that_is_emitted_is_accepted(wanted: str) -> None:
    check_can_be_met(event(wanted))
