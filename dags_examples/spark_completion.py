"""Goes on when the Spark job `orders` of the date is done, wherever it was submitted; fails when it failed.

The job tells it by `completion_event(spark, "orders", data={"date": date})`, and where its output is.
A try that failed fails the wait, although the job may be tried again: docs/use/spark.md has what to do then.
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
