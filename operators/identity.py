"""Names and ids of a task instance that are the same in all its tries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from airflow.sdk import Context


def task_identity(context: Context, deployment: str) -> str:
    """Returns `deployment/dag/run/task`, plus `/map_index` if the task is mapped."""
    ti = context["ti"]
    parts = [deployment, ti.dag_id, ti.run_id, ti.task_id]
    if ti.map_index is not None and ti.map_index >= 0:
        parts.append(str(ti.map_index))
    return "/".join(parts)


def generation(context: Context) -> int:
    """Returns how many tries had ended at the last clear; 0 if the task was never cleared. Same for retries.

    At a clear, Airflow sets `max_tries` to the tries so far plus the retries, so this is max_tries minus the
    task's retries.
    """
    ti = context["ti"]
    return max(0, (ti.max_tries or 0) - (ti.task.retries or 0))


def clears(context: Context) -> dict[str, int]:
    """Returns the two values that a clear changes, and a retry or an edited DAG file does not.

    A clear may leave one of them unchanged: `max_tries` if `retries` were lowered by the number of ended
    tries, and the run's `clear_number` if the API request does not reset the run. Clearing another task of
    the run changes `clear_number` too.
    """
    return {"max_tries": context["ti"].max_tries or 0, "clear_number": context["dag_run"].clear_number or 0}


def generation_after(context: Context, before: Mapping[str, Any]) -> int:
    """As `generation`, but an edit of `retries` is not a clear. before: what an earlier try stored."""
    current, earlier, now = generation(context), int(before["generation"]), clears(context)
    if now["max_tries"] != before["max_tries"]:  # only a clear changes it
        return max(current, earlier + 1)
    if now["clear_number"] == before["clear_number"]:
        return earlier
    return max(current, earlier)  # this task was cleared, or another one of the run


def event_source(context: Context, deployment: str) -> str:
    """Returns the CloudEvents source of a task: a URI reference, `/deployment/dag/task`."""
    ti = context["ti"]
    return "/" + "/".join(quote(part, safe="") for part in (deployment, ti.dag_id, ti.task_id))


def event_id(context: Context, deployment: str, ordinal: int | str = 0) -> str:
    """Returns the id of an event of this task: the same in retries, another one after a clear."""
    ti = context["ti"]
    parts = [deployment, ti.dag_id, ti.run_id, ti.task_id, ti.map_index, generation(context), ordinal]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
