"""The task of a wait, and the context of its run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred
from interlock import event
from interlock.operators import EventSensor

from tests.kit.state_store import StateStore, task_instance

SOLO = event("x")
PAIR = event("x", by="data.day") & event("y", by="data.day")
DAY = datetime(2026, 11, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)


def sensor(condition: Any = SOLO, **arguments: Any) -> EventSensor:
    return EventSensor(task_id="wait", condition=condition, **arguments)


def context(logical_date: datetime | None = DAY, run_after: datetime = DAY + 24 * HOUR) -> Any:
    return {
        "ti": task_instance(task_id="wait"),
        "dag_run": SimpleNamespace(logical_date=logical_date, run_after=run_after, clear_number=0),
        "task_state_store": StateStore(),
    }


def deferred(task: EventSensor, given: Any = None) -> dict[str, Any]:
    """Returns the kwargs of the trigger that the task defers to."""
    with pytest.raises(TaskDeferred) as raised:
        task.execute(given or context())
    assert raised.value.method_name == "execute_complete"
    assert raised.value.timeout is None
    kwargs: dict[str, Any] = raised.value.trigger.serialize()[1]
    return kwargs
