"""Continues when two of three markets have closed for the day, without waiting for the third one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task
from interlock import at_least, event
from interlock.operators import EventSensor

MARKETS = ("nyse", "lse", "tse")
closed = [
    event("com.example.market.closed", source=f"/markets/{name}", by="data.date", label=name)
    for name in MARKETS
]

with DAG("n_of_m", schedule="@daily", tags=["interlock"]):
    two_closed = EventSensor(
        task_id="two_closed", condition=at_least(2, *closed), key="{{ ds }}", timeout=timedelta(hours=30)
    )

    @task
    def value_positions(firing: dict[str, Any]) -> list[str]:
        return sorted(firing["events"])

    value_positions(two_closed.output)
