"""Builds completions from objects of the scheduler, the API server, a task's process, or the database.

These objects have different classes but the same attribute names.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from ...events.completions import DagRun, DagRunCompletion, TaskInstanceCompletion


def dag_run_completion(run: Any, state: str, deployment: str) -> DagRunCompletion:
    """Returns the completion of a run. run: a DagRun as in the database."""
    return DagRunCompletion(
        run=_dag_run(run, deployment),
        state=state,
        started_at=run.start_date,
        ended_at=_or_now(run.end_date),
    )


def task_instance_completion(ti: Any, run: Any, state: str, deployment: str) -> TaskInstanceCompletion:
    """Returns the completion of a task instance. ti, run: as in the database, or in a task's process."""
    map_index = -1 if ti.map_index is None else ti.map_index
    return TaskInstanceCompletion(
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
    """Returns the run of a task instance of the database or of a task's process."""
    run = getattr(ti, "dag_run", None)
    return ti.get_template_context()["dag_run"] if run is None else run


def tags_of(ended: Any) -> Collection[str]:
    """Returns the tags of the DAG of a run or task instance; reads them from the database if necessary."""
    task = getattr(ended, "task", None)
    dag = getattr(task, "dag", None) if task is not None else getattr(ended, "dag", None)
    if dag is not None:
        return frozenset(dag.tags or ())
    run = getattr(ended, "dag_run", ended)
    return frozenset(tag.name for tag in run.dag_model.tags)


def is_of_dag_test(ended: Any) -> bool:
    """Returns whether this belongs to `dag.test()`, which must not emit events."""
    supervisor = sys.modules.get("airflow.sdk.execution_time.supervisor")
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    comms = getattr(runner, "SUPERVISOR_COMMS", None)
    in_process = getattr(supervisor, "InProcessSupervisorComms", None)
    if comms is not None and in_process is not None and isinstance(comms, in_process):
        return True
    return text_of(getattr(ended, "triggered_by", None)) == "test"


def text_of(value: object) -> str:
    """Returns the text of an enumeration's member or of a string; "" for None."""
    return "" if value is None else str(getattr(value, "value", value))


def _or_now(ended_at: datetime | None) -> datetime:
    # When a task skips itself, Airflow sends the end date to its server but does not set it on this object.
    return datetime.now(UTC) if ended_at is None else ended_at


def _dag_run(run: Any, deployment: str) -> DagRun:
    return DagRun(
        deployment=deployment,
        dag_id=run.dag_id,
        run_id=run.run_id,
        run_type=text_of(run.run_type),
        run_after=run.run_after,
        logical_date=run.logical_date,
        data_interval_start=run.data_interval_start,
        data_interval_end=run.data_interval_end,
        partition_key=run.partition_key,
        clear_number=run.clear_number or 0,
    )
