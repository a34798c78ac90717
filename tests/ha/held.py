"""Puts mapped task instances into the state `deferred` without a worker: run in Airflow's environment.

Reads one JSON object from stdin: dag_id, run_id, task_id, classpath, and `kwargs`, a list by map index. Their
pool has no slots, so that they stand `scheduled`. It is Airflow's own way to defer a task from the scheduler,
row by row; a worker would need a second for each.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any


def defer(form: dict[str, Any]) -> int:
    """How many were deferred."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.triggers.base import StartTriggerArgs
    from airflow.utils.session import create_session
    from sqlalchemy import select

    wanted = select(TaskInstance).where(
        TaskInstance.dag_id == form["dag_id"],
        TaskInstance.run_id == form["run_id"],
        TaskInstance.task_id == form["task_id"],
        TaskInstance.map_index.in_(range(len(form["kwargs"]))),
        TaskInstance.state == "scheduled",
    )
    done = 0
    with create_session() as session:
        for instance in session.scalars(wanted).all():
            instance.task = SimpleNamespace(
                start_from_trigger=True,
                start_trigger_args=StartTriggerArgs(
                    trigger_cls=form["classpath"],
                    next_method="execute_complete",
                    trigger_kwargs=form["kwargs"][instance.map_index],
                ),
                execution_timeout=None,
            )
            instance.try_number -= 1  # it was scheduled once; deferring counts again
            done += instance.defer_task(session=session)
    return done


if __name__ == "__main__":
    print(json.dumps({"deferred": defer(json.load(sys.stdin))}))
