"""A fake of Airflow's task state store."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any


class StateStore(dict[str, Any]):
    """The task state store of one task instance. retention: that of the latest `set`."""

    retention = timedelta(0)

    def set(self, key: str, value: Any, *, retention: timedelta) -> None:
        self.retention = retention
        self[key] = json.loads(json.dumps(value))
