"""A page every morning: latencies, expired waits, slow producers, and events that nothing waits for."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from airflow.sdk import DAG
from interlock.operators import SparkSubmitEventOperator
from interlock.spark.pipeline import job

with DAG(
    "event_report",
    schedule="0 6 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["interlock"],
):
    SparkSubmitEventOperator(
        task_id="report",
        name="event_report",
        application=job("report"),
        application_args=[
            "--archive", "{{ var.value.interlock_archive }}",
            "--since", "{{ (logical_date - macros.timedelta(days=7)).isoformat() }}",
            "--output", "{{ var.value.interlock_archive }}_reports/{{ ds }}",
        ],
        events="none",  # nothing waits for its queries
        env_vars={"PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
