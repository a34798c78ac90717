"""Continues when the Spark job `orders` of the date has succeeded, wherever it runs; fails if it fails.

The job emits the event with `completion_event(spark, "orders", data={"date": date})`; the event contains the
path of its output. A failed try fails the wait, even if the job is tried again: see docs/use/spark.md.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task
from interlock import spark_application
from interlock.operators import EventSensor

with DAG("spark_completion", schedule="@daily", tags=["interlock"]):
    orders = EventSensor(
        task_id="orders",
        condition=spark_application("orders", by="data.date", label="orders"),
        fail_on=spark_application("orders", state="failed", by="data.date", label="failed"),
        key="{{ ds }}",
        timeout=timedelta(hours=6),
    )

    @task
    def load(output: str) -> str:
        return f"loaded {output}"

    orders >> load("{{ ti.xcom_pull(task_ids='orders')['events']['orders'][0]['data']['output'] }}")
