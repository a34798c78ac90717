"""daily_report: waits for the orders AND the rates of its business date, then joins the two with Spark.

While it waits, the task is deferred: it uses a row in Airflow's database and no worker slot. The events may
come in any order, and before the wait starts. `ready.output` contains the events, so the job reads the
announced paths instead of guessing them.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG
from interlock import event
from interlock.operators import EventSensor
from spark_job import DATA, spark_job

orders = event("interlock.spark.application.succeeded", subject="orders", by="data.date", label="orders")
rates = event("com.example.rates.published", by="data.date", label="rates")

with DAG("daily_report", schedule=None, tags=["interlock"]):
    ready = EventSensor(task_id="ready", condition=orders & rates, key="{{ ds }}", timeout=timedelta(hours=6))
    report = spark_job(
        "daily_report",
        [
            "--date", "{{ ds }}",
            "--orders", "{{ ti.xcom_pull(task_ids='ready')['events']['orders'][0]['data']['output'] }}",
            "--rates", "{{ ti.xcom_pull(task_ids='ready')['events']['rates'][0]['data']['output'] }}",
            "--firing", "{{ ti.xcom_pull(task_ids='ready')['firing_id'] }}",
            "--output", DATA + "/reports/{{ ds }}/{{ ts_nodash }}-{{ ti.try_number }}.json",
        ],
    )  # fmt: skip
    ready >> report
