"""Fakes of a task instance and of its state store."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any


class StateStore(dict[str, Any]):
    """The task state store of one task instance. retention: that of the latest `set`."""

    retention = timedelta(0)

    def set(self, key: str, value: Any, *, retention: timedelta) -> None:
        self.retention = retention
        self[key] = json.loads(json.dumps(value))


def task_instance(retries: int | None = 0, **changes: Any) -> SimpleNamespace:
    """What operators read of a task instance, here in its first try."""
    about = {"dag_id": "dag", "run_id": "run", "task_id": "task", "map_index": -1, "try_number": 1}
    task = SimpleNamespace(retries=retries)
    return SimpleNamespace(**{**about, "max_tries": retries, "task": task, **changes})
