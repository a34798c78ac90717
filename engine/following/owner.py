"""The DAG, and the task instance, to which a subscription belongs: its name says so."""

from __future__ import annotations

from typing import Final, NamedTuple

from ..records.registration import Kind

_OF_DAGS: Final = ("dispatch", "deliver")  # durable subscriptions with such names are called after their DAG


class Owner(NamedTuple):
    """What a subscription's name says. For a durable one only the DAG. map_index: None if not mapped.

    dag_id is None for a subscription of another deployment, of an asset, or of another program.
    """

    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None


_NOBODY: Final = Owner()


def owner_of(subscription: str, kind: Kind, deployment: str) -> Owner:
    """The owner of a subscription in the Airflow whose name is `deployment`.

    Waits are called `deployment/dag/run/task`, with `/map_index` if mapped. An id of a DAG or task contains
    no slash; that of a run may.
    """
    first, *parts = subscription.split("/")
    if first != deployment:
        return _NOBODY
    if kind == "durable":
        return Owner(parts[1]) if len(parts) == 2 and parts[0] in _OF_DAGS else _NOBODY
    if len(parts) < 3:
        return _NOBODY
    dag_id, *run, task_id = parts
    index: int | None = None
    if len(run) > 1 and task_id.isascii() and task_id.isdecimal() and len(task_id) <= 9:
        index = int(task_id)
        task_id = run.pop()
    return Owner(dag_id, "/".join(run), task_id, index)


def name_of(owner: Owner, deployment: str) -> str:
    """The name of the wait of a task instance."""
    index = () if owner.map_index is None or owner.map_index < 0 else (owner.map_index,)
    return "/".join(map(str, (deployment, owner.dag_id, owner.run_id, owner.task_id, *index)))
