"""Orders AND rates of one business date, within two hours of each other; an alert if one is missing.

The wait expires six hours after its start. The task then succeeds with the outcome `expired` and the missing
labels, so that the DAG decides what to do.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, task
from interlock import event
from interlock.operators import EventSensor

orders = event("com.example.orders.done", by="data.date", label="orders")
rates = event("com.example.rates.published", by="data.date", label="rates")

with DAG("and_with_expiry", schedule="@daily", tags=["interlock"]):
    ready = EventSensor(
        task_id="ready",
        condition=(orders & rates).within("2h").expires(after="6h"),
        key="{{ ds }}",
        on_expired="succeed",
    )

    @task.branch
    def decide(firing: dict[str, Any]) -> str:
        return "report" if firing["outcome"] == "met" else "alert"

    @task
    def report(firing: dict[str, Any]) -> str:
        return f"{firing['key']}: {firing['events']['orders'][0]['data']['rows']} orders"

    @task
    def alert(firing: dict[str, Any]) -> str:
        return f"{firing['key']}: no {' and no '.join(firing['missing'])}"

    decide(ready.output) >> [report(ready.output), alert(ready.output)]
