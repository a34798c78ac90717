"""The state of a task instance, read from Airflow's API by a task's process or a triggerer."""

from __future__ import annotations


def state_of(dag_id: str, run_id: str, task_id: str, map_index: int | None) -> str | None:
    """Returns the state in the database; None if it has no state, as after a clear, or does not exist.

    Blocks while it queries the supervisor. Raises whatever Airflow raises.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    states = RuntimeTaskInstance.get_task_states(
        dag_id=dag_id, map_index=map_index, task_ids=[task_id], run_ids=[run_id]
    )
    mapped = map_index is not None and map_index >= 0
    state = states.get(run_id, {}).get(f"{task_id}_{map_index}" if mapped else task_id)
    return None if state is None else str(state)
