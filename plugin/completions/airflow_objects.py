"""Ends as Airflow holds them: in the scheduler, in the API server, in a task's process, in its database.

They come as objects of different classes that have the same names for the same things.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from ...events.completions import DagRun, DagRunEnd, TaskInstanceEnd


def dag_run_end(run: Any, state: str, deployment: str) -> DagRunEnd:
    """run: a DagRun of the database."""
    return DagRunEnd(
        run=_dag_run(run, deployment),
        state=state,
        started_at=run.start_date,
        ended_at=_or_now(run.end_date),
    )


def task_instance_end(ti: Any, run: Any, state: str, deployment: str) -> TaskInstanceEnd:
    """ti, run: of the database, or of a task's process."""
    map_index = -1 if ti.map_index is None else ti.map_index
    return TaskInstanceEnd(
        run=_dag_run(run, deployment),
        task_id=ti.task_id,
        map_index=map_index,
        try_number=ti.try_number,
        max_tries=ti.max_tries or 0,
        state=state,
        started_at=ti.start_date,
        ended_at=_or_now(ti.end_date),
    )


def run_of(ti: Any) -> Any:
    """The run of a task instance, in either kind of process."""
    run = getattr(ti, "dag_run", None)
    return ti.get_template_context()["dag_run"] if run is None else run


def tags_of(ended: Any) -> Collection[str]:
    """The tags of the DAG of a run or task instance; read from the database where the DAG is not at hand."""
    task = getattr(ended, "task", None)
    dag = getattr(task, "dag", None) if task is not None else getattr(ended, "dag", None)
    if dag is not None:
        return frozenset(dag.tags or ())
    run = getattr(ended, "dag_run", ended)
    return frozenset(tag.name for tag in run.dag_model.tags)


def is_of_dag_test(ended: Any) -> bool:
    """Whether this is `dag.test()`, whose ends are nobody else's."""
    supervisor = sys.modules.get("airflow.sdk.execution_time.supervisor")
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    comms = getattr(runner, "SUPERVISOR_COMMS", None)
    in_process = getattr(supervisor, "InProcessSupervisorComms", None)
    if comms is not None and in_process is not None and isinstance(comms, in_process):
        return True
    return _word(getattr(ended, "triggered_by", None)) == "test"


def word_of(state: object) -> str:
    """An enumeration's member, or its text, as text."""
    return _word(state) or ""


def _word(value: object) -> str | None:
    return None if value is None else str(getattr(value, "value", value))


def _or_now(ended_at: datetime | None) -> datetime:
    """Of a task that skips itself Airflow tells the end date to its server, not to the object at hand."""
    return datetime.now(UTC) if ended_at is None else ended_at


def _dag_run(run: Any, deployment: str) -> DagRun:
    return DagRun(
        deployment=deployment,
        dag_id=run.dag_id,
        run_id=run.run_id,
        run_type=_word(run.run_type) or "",
        run_after=run.run_after,
        logical_date=run.logical_date,
        data_interval_start=run.data_interval_start,
        data_interval_end=run.data_interval_end,
        partition_key=run.partition_key,
        clear_number=run.clear_number or 0,
    )
