"""Two backfills: runs of past dates that find their past events, and new runs for corrected data.

`airflow backfill create --dag-id sales_report ...` runs past dates. Each run waits for the event of its own
date, which is in the past. So `since` is early: all events that the topic still has count.

When sales of a past date are corrected, `sales_restated` starts one run of `sales_again` for that date, as
soon as there was no further correction for ten minutes.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, task
from interlock import event
from interlock.operators import EventSensor, dispatch_dag

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)

closed = event("com.example.sales.closed", by="data.date", label="closed")
restated = event("com.example.sales.restated", by="data.date", label="restated")

with DAG("sales_report", schedule="@daily", start_date=BEGIN, catchup=False, tags=["interlock"]):
    EventSensor(task_id="closed", condition=closed, key="{{ ds }}", since=BEGIN)

dispatch_dag(
    "sales_restated",
    condition=restated.quiet("10m"),
    trigger_dag_id="sales_again",
    logical_date="{{ firing.key }}",
    note="restated: {{ firing.events.restated[0].data.reason }}",
    tags=["interlock"],
)

with DAG("sales_again", schedule=None, tags=["interlock"]):

    @task
    def compute(day: str) -> str:
        return f"computed {day}"

    compute("{{ ds }}")
