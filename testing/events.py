"""Events for tests, as read from a topic: plain records, and Interlock's completion events."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from ..conditions.explanation.explain import moment_of
from ..conditions.filters.filter import is_unicode
from ..events.completions import DagRun, DagRunCompletion, TaskInstanceCompletion
from ..events.content import serialize
from ..events.errors import EventError
from ..events.event import Event
from ..events.kafka import TOPIC_RULE, is_topic
from ..events.plain import event_of_record
from ..events.plain_text import takes_plain_text
from ..events.taxonomy import DAG_RUN, SPARK_APPLICATION, TASK_INSTANCE
from ..spark.completion.application import Application
from ..spark.completion.arguments import check_name, checked_data
from ..spark.completion.outcome import Failure
from ..spark.completion.report import Report
from ..triggers.argument_checks import ArgumentChecks

_MAX_NUMBER: Final = 2**63 - 1  # Kafka's and Airflow's numbers have 64 bits at most


@takes_plain_text
def record(
    topic: str,
    value: object,
    *,
    at: str,
    key: str | None = None,
    partition: int = 0,
    offset: int = 0,
) -> Event:
    """Returns the event of a plain record.

    value: bytes unchanged, None is a tombstone (b"null" is JSON's null), anything else as JSON. at: the
    record timestamp, ISO 8601 with a zone. Give each record of a partition its own `offset`: partition and
    offset are the event's id.
    """
    checks = ArgumentChecks("record()")
    if not isinstance(topic, str) or not is_topic(topic):
        checks.fail("topic", topic, TOPIC_RULE)
    checks.whole_number("partition", partition, 0, 2**31 - 1)
    checks.whole_number("offset", offset, 0, _MAX_NUMBER)
    if key is not None and not (isinstance(key, str) and is_unicode(key)):
        checks.fail("key", key, "the record's key as text")
    data = None if value is None else json_of("record(): value", value)
    raw_key = None if key is None else key.encode()
    return event_of_record(topic, partition, offset, moment_of("record(at=", at), raw_key, data, None)


@takes_plain_text
def dag_run_end(
    dag_id: str,
    state: str = "success",
    *,
    at: str,
    logical_date: str | None = None,
    partition_key: str | None = None,
    run_id: str | None = None,
    run_type: str | None = None,
    clear_number: int = 0,
    deployment: str = "airflow",
) -> Event:
    """Returns the listener's completion event of a DAG run that ended at `at`; `dag_run(...)` matches it.

    state: "success" or "failed". Times: ISO 8601 with a zone. run_type: default: "scheduled" with a logical
    date, else "manual". run_id: default: made of run_type, logical date (or `at`) and partition_key. Events
    with the same run, state and clear_number are the same event.
    """
    checks = ArgumentChecks("dag_run_end()")
    checks.choice("state", state, [*DAG_RUN])
    _check_run(checks, dag_id, partition_key, run_id, run_type, deployment, clear_number)
    ended_at = _moment("dag_run_end(at=", at)
    date = None if logical_date is None else _moment("dag_run_end(logical_date=", logical_date)
    run = _run(dag_id, ended_at, date, partition_key, run_id, run_type, deployment, clear_number)
    return DagRunCompletion(run=run, state=state, started_at=None, ended_at=ended_at).event()


@takes_plain_text
def task_instance_end(
    dag_id: str,
    task_id: str,
    state: str = "success",
    *,
    at: str,
    logical_date: str | None = None,
    partition_key: str | None = None,
    run_id: str | None = None,
    run_type: str | None = None,
    map_index: int = -1,
    clear_number: int = 0,
    deployment: str = "airflow",
) -> Event:
    """As `dag_run_end`, of a task instance; state: "success", "failed" or "skipped".

    clear_number: how often it was cleared after a try; each clear makes another event.
    """
    checks = ArgumentChecks("task_instance_end()")
    checks.choice("state", state, [*TASK_INSTANCE])
    checks.text("task_id", task_id, "the task's id")
    checks.whole_number("map_index", map_index, -1, _MAX_NUMBER)
    _check_run(checks, dag_id, partition_key, run_id, run_type, deployment, clear_number)
    ended_at = _moment("task_instance_end(at=", at)
    date = None if logical_date is None else _moment("task_instance_end(logical_date=", logical_date)
    end = TaskInstanceCompletion(
        run=_run(dag_id, ended_at, date, partition_key, run_id, run_type, deployment),
        task_id=task_id,
        map_index=map_index,
        try_number=1,
        max_tries=clear_number,
        state=state,
        started_at=None,
        ended_at=ended_at,
    )
    return end.event()


@takes_plain_text
def spark_application_end(
    name: str,
    state: str = "succeeded",
    *,
    at: str,
    data: Mapping[str, object] | None = None,
    application: str = "testing",
    application_id: str | None = None,
    error: tuple[str, str] | None = None,
    airflow: Mapping[str, object] | None = None,
) -> Event:
    """Returns the event of `completion_event(spark, name, data=data)`. state: "succeeded" or "failed".

    application: the application's name. application_id: default: computed from `at` and the data. Events with
    the same application_id, name and state are the same event. error: class and message of the failure.
    airflow: the task that submitted it, `{"dag_id": ...}`. Raises CompletionError for data with names that
    Interlock sets.
    """
    checks = ArgumentChecks("spark_application_end()")
    checks.choice("state", state, [*SPARK_APPLICATION])
    check_name(checks.who, name)
    checks.text("application", application, "the application's name")
    checks.text("application_id", application_id, "the application's id", none=True)
    if error is not None and not _is_error(error):
        checks.fail("error", error, "a tuple of two texts: the error's class and its message")
    if airflow is not None and not (
        isinstance(airflow, Mapping) and all(isinstance(n, str) for n in airflow)
    ):
        checks.fail("airflow", airflow, "a dict, such as {'dag_id': ...}")
    json_of("spark_application_end(): airflow", airflow)
    if error is not None and state != "failed":
        raise ValueError(f"spark_application_end(error=): state is {state!r}; only 'failed' has an error")
    ended_at = _moment("spark_application_end(at=", at)
    author_data = checked_data(checks.who, data)
    if application_id is None:
        form = json.dumps([ended_at.isoformat(), dict(author_data)], sort_keys=True, default=str)
        application_id = f"app-{hashlib.sha256(form.encode()).hexdigest()[:12]}"
    about = Application(
        id=application_id,
        name=application,
        user="testing",
        attempt=None,
        session=None,
        started_at=ended_at,
        spark_version="4.0.0",
    )
    failure = Failure(*(error or ("RuntimeError", "testing"))) if state == "failed" else None
    report = Report(name, about, data=dict(author_data), airflow=dict(airflow or {}))
    return report.event(failure, ended_at)


def _run(
    dag_id: str,
    ended_at: datetime,
    logical_date: datetime | None,
    partition_key: str | None,
    run_id: str | None,
    run_type: str | None,
    deployment: str,
    clear_number: int = 0,
) -> DagRun:
    kind = run_type or ("manual" if logical_date is None else "scheduled")
    if run_id is None:  # like Airflow's run ids, without their random part
        partition = "" if partition_key is None else f"_{partition_key}"
        run_id = f"{kind}__{(logical_date or ended_at).isoformat()}{partition}"
    return DagRun(
        deployment=deployment,
        dag_id=dag_id,
        run_id=run_id,
        run_type=kind,
        run_after=ended_at,
        logical_date=logical_date,
        partition_key=partition_key,
        clear_number=clear_number,
    )


def _check_run(
    checks: ArgumentChecks,
    dag_id: object,
    partition_key: object,
    run_id: object,
    run_type: object,
    deployment: object,
    clear_number: object,
) -> None:
    checks.text("dag_id", dag_id, "the DAG's id")
    for name, value in (("partition_key", partition_key), ("run_id", run_id), ("run_type", run_type)):
        checks.text(name, value, "a text", none=True)
    checks.name_of("deployment", deployment, none=False)
    checks.whole_number("clear_number", clear_number, 0, _MAX_NUMBER)


def _is_error(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(each, str) for each in value)


def json_of(where: str, value: object) -> bytes:
    """Returns the value as JSON; bytes are unchanged. Raises EventError."""
    try:
        return serialize(value, None)
    except EventError as e:
        raise EventError(f"{where}: {e}") from None


def _moment(where: str, text: str) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment_of(where, text))
