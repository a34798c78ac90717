"""Names of a task instance, the same in every try of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from airflow.sdk import Context


def task_identity(context: Context, deployment: str) -> str:
    """`deployment/dag/run/task`, and `/map_index` where the task is mapped. The same for every try."""
    ti = context["ti"]
    parts = [deployment, ti.dag_id, ti.run_id, ti.task_id]
    if ti.map_index is not None and ti.map_index >= 0:
        parts.append(str(ti.map_index))
    return "/".join(parts)


def generation(context: Context) -> int:
    """How many tries were over when the task was cleared last; 0 where it never was. Retries share it.

    Airflow counts tries on when a task is cleared and raises `max_tries` with them, so it is max_tries less
    the task's retries.
    """
    ti = context["ti"]
    return max(0, (ti.max_tries or 0) - (ti.task.retries or 0))


def clears(context: Context) -> dict[str, int]:
    """What a clear changes, and neither a retry nor an edited DAG does.

    A clear may leave one of them: `max_tries`, where `retries` were lowered by as many tries as were over,
    and the run's `clear_number`, where the API is told to leave the run alone. A clear of another task of the
    run changes that one too.
    """
    return {"max_tries": context["ti"].max_tries or 0, "clear_number": context["dag_run"].clear_number or 0}


def generation_after(context: Context, before: Mapping[str, Any]) -> int:
    """As `generation`, where an earlier try kept its own with `clears`: a change of `retries` is no clear."""
    own, was, now = generation(context), before.get("generation"), clears(context)
    if not isinstance(was, int) or not isinstance(before.get("max_tries"), int):
        return own  # kept by a version of before
    if now["max_tries"] != before["max_tries"]:
        return max(own, was + 1)
    return was if now["clear_number"] == before.get("clear_number") else max(own, was)


def event_source(context: Context, deployment: str) -> str:
    """The CloudEvents source of a task: a URI reference, `/deployment/dag/task`."""
    ti = context["ti"]
    return "/" + "/".join(quote(part, safe="") for part in (deployment, ti.dag_id, ti.task_id))


def event_id(context: Context, deployment: str, ordinal: int | str = 0) -> str:
    """The id of the event a task emits: the same when the task is retried, another one when it is cleared."""
    ti = context["ti"]
    parts = [deployment, ti.dag_id, ti.run_id, ti.task_id, ti.map_index, generation(context), ordinal]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
