"""Defers mapped tasks without a worker, and reads what they are resumed with. Runs in Airflow's environment.

`held.py defer|resumed` reads a JSON object from stdin: dag_id, run_id, task_id, and for `defer` classpath and
`kwargs`, a list by map index. It prints one line of JSON. The tasks' pool has no slots, so they are
`scheduled` before and after. This is how Airflow's scheduler defers a task itself; a worker would need a
second for each.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Select


def instances(form: dict[str, Any]) -> Select[Any]:
    """The task instances that are `scheduled`."""
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import select

    return select(TaskInstance).where(
        TaskInstance.dag_id == form["dag_id"],
        TaskInstance.run_id == form["run_id"],
        TaskInstance.task_id == form["task_id"],
        TaskInstance.state == "scheduled",
    )


def defer(form: dict[str, Any]) -> int:
    """Defers the instances; returns how many."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.triggers.base import StartTriggerArgs
    from airflow.utils.session import create_session

    wanted = instances(form).where(TaskInstance.map_index.in_(range(len(form["kwargs"]))))
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
            instance.try_number -= 1  # scheduling counted it already; deferring counts it again
            done += instance.defer_task(session=session)
    return done


def resumed(form: dict[str, Any]) -> list[dict[str, Any]]:
    """map_index, next_method, and the trigger's event (null for a failed trigger) of each instance."""
    from airflow.utils.session import create_session

    with create_session() as session:
        return [
            {
                "map_index": instance.map_index,
                "next_method": instance.next_method,
                "event": (instance.next_kwargs or {}).get("event"),
            }
            for instance in session.scalars(instances(form)).all()
        ]


if __name__ == "__main__":
    print(json.dumps({"defer": defer, "resumed": resumed}[sys.argv[1]](json.load(sys.stdin))))
