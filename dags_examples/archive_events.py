"""Every hour what is new on the bus goes into the archive; once a day the archive's files are compacted.

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
    # It goes on where the last one ended, whether that was killed or not.
    archive = SparkSubmitEventOperator(
        task_id="archive",
        name="archive",
        application=job("archive"),
        application_args=["--archive", ARCHIVE],
        packages=packages(),
        events="none",  # the ends of its queries would be events that the next run archives
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
        events="none",  # the ends of its queries are of interest to nobody
        env_vars={"PYSPARK_PYTHON": sys.executable},
    )
