"""The DAG, and the task instance, to which a subscription belongs: its name says so."""

from __future__ import annotations

from typing import NamedTuple

from ..records.registration import Kind


class Owner(NamedTuple):
    """What a subscription's name says. For a durable one only the DAG is known. map_index: None if not mapped.

    dag_id is None for a subscription of another deployment, of an asset, or of another program.
    """

    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None


def owner_of(subscription: str, kind: Kind, deployment: str) -> Owner:
    """The owner of a subscription in the Airflow whose name is `deployment`."""
    raise NotImplementedError


def name_of(owner: Owner, deployment: str) -> str:
    """The name of the wait of a task instance: `deployment/dag/run/task`, with `/map_index` if mapped."""
    raise NotImplementedError
