"""Events for tests, as they would be read from a topic: plain records, and the ends that Interlock tells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from ..conditions.explanation.explain import moment_of
from ..events.ends import DagRun, DagRunEnd, TaskInstanceEnd
from ..events.event import Event
from ..events.plain import event_of_record
from ..events.schemas import SPARK, urn
from ..events.taxonomy import DAG_RUN, SPARK_APPLICATION, TASK_INSTANCE


def record(
    topic: str,
    value: object,
    *,
    at: str,
    key: str | None = None,
    partition: int = 0,
    offset: int = 0,
) -> Event:
    """The event that a record without CloudEvents headers is read as.

    value: bytes as they are, anything else as JSON. at: when the broker took it, ISO 8601 with a zone.
    Give each record of a partition its own `offset`: with the partition it is the event's id.
    """
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    text = None if key is None else key.encode()
    return event_of_record(topic, partition, offset, moment_of("record(at=", at), text, data, None)


def dag_run_end(
    dag_id: str,
    state: str = "success",
    *,
    at: str,
    logical_date: str | None = None,
    partition_key: str | None = None,
    run_id: str = "testing",
    clear_number: int = 0,
    deployment: str = "airflow",
) -> Event:
    """What the listener tells of a DAG run that ended at `at`; a wait for `dag_run(...)` takes it.

    state: "success" or "failed". Moments: ISO 8601 with a zone. clear_number: another one, another event.
    """
    _check("dag_run_end", state, DAG_RUN)
    run = DagRun(
        deployment=deployment,
        dag_id=dag_id,
        run_id=run_id,
        run_type="manual" if logical_date is None else "scheduled",
        run_after=_moment("dag_run_end(at=", at),
        logical_date=None if logical_date is None else _moment("dag_run_end(logical_date=", logical_date),
        partition_key=partition_key,
        clear_number=clear_number,
    )
    return DagRunEnd(run=run, state=state, started_at=None, ended_at=_moment("dag_run_end(at=", at)).event()


def task_instance_end(
    dag_id: str,
    task_id: str,
    state: str = "success",
    *,
    at: str,
    logical_date: str | None = None,
    partition_key: str | None = None,
    run_id: str = "testing",
    map_index: int = -1,
    deployment: str = "airflow",
) -> Event:
    """As `dag_run_end`, of a task instance; state: "success", "failed" or "skipped"."""
    _check("task_instance_end", state, TASK_INSTANCE)
    ended = _moment("task_instance_end(at=", at)
    date = None if logical_date is None else _moment("task_instance_end(logical_date=", logical_date)
    run = DagRun(
        deployment=deployment,
        dag_id=dag_id,
        run_id=run_id,
        run_type="manual" if date is None else "scheduled",
        run_after=ended,
        logical_date=date,
        partition_key=partition_key,
    )
    end = TaskInstanceEnd(
        run=run,
        task_id=task_id,
        map_index=map_index,
        try_number=1,
        max_tries=0,
        state=state,
        started_at=None,
        ended_at=ended,
    )
    return end.event()


def spark_application_end(
    name: str,
    state: str = "succeeded",
    *,
    at: str,
    data: Mapping[str, object] | None = None,
    application: str = "testing",
) -> Event:
    """What `completion_event(spark, name, data=data)` tells; state: "succeeded" or "failed"."""
    _check("spark_application_end", state, SPARK_APPLICATION)
    return Event.of(
        SPARK_APPLICATION[state],
        f"/spark/{quote(application, safe='')}",
        id=f"{name} {state} {at}",
        subject=name,
        time=_moment("spark_application_end(at=", at),
        dataschema=urn(SPARK),
        data=dict(data or {}),
    )


def _check(name: str, state: str, known: Mapping[str, str]) -> None:
    if state not in known:
        raise ValueError(f"{name}(state={state!r}): it is one of {', '.join(known)}")


def _moment(where: str, text: str) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment_of(where, text))
