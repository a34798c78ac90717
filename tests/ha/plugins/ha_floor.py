"""The least time that Airflow needs: a trigger, without Interlock, that sleeps until a moment and yields."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent


class Floor(BaseTrigger):
    """moment: ISO 8601. A stock DateTimeTrigger looks once a second; this one wakes up in time."""

    def __init__(self, moment: str) -> None:
        super().__init__()
        self.moment = moment

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "ha_floor.Floor", {"moment": self.moment}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        left = datetime.fromisoformat(self.moment) - datetime.now(UTC)
        await asyncio.sleep(max(0.0, left.total_seconds()))
        yield TriggerEvent({"moment": self.moment})


class FloorTask(BaseOperator):
    """Deferred by the harness (tests/ha/held.py), so that it costs no worker before."""

    def __init__(self, *, number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number

    def execute(self, context: Any) -> None:
        raise RuntimeError("this task is put into the state `deferred` by its harness")

    def execute_complete(self, context: Any, event: dict[str, Any]) -> None:
        """Nothing: what is measured is over by then."""
