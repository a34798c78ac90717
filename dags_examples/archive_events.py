"""Copies new records of the bus into the archive every hour, and compacts the archive's files once a day.

The archive is a folder of Parquet files that outlives the topics' retention; backtests and reports read it.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from interlock.operators import SparkSubmitEventOperator
from interlock.spark.pipeline import job, packages

ARCHIVE = "{{ var.value.interlock_archive }}"

with DAG(
    "archive_events",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=2)},
    tags=["interlock"],
):
    # It continues where the last run ended, even if that run was killed.
    archive = SparkSubmitEventOperator(
        task_id="archive",
        name="archive",
        application=job("archive"),
        application_args=["--archive", ARCHIVE],
        packages=packages(),
        events="none",  # otherwise the next run would archive the completion events of this run's queries
        env_vars={"PYSPARK_PYTHON": sys.executable},
    )

with DAG(
    "compact_archive",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["interlock"],
):
    SparkSubmitEventOperator(
        task_id="compact",
        name="compact_archive",
        application=job("archive-compact"),
        application_args=["--archive", ARCHIVE, "--keep", "400"],
        events="none",  # nothing waits for its queries
        env_vars={"PYSPARK_PYTHON": sys.executable},
    )
