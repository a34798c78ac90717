"""Started by hand: what a condition would have done with the archived events, and what a change of it would.

Trigger it with the two conditions as text; the summary is in the task's log, the firings are Parquet.
"""

from __future__ import annotations

import sys

from airflow.sdk import DAG, Param
from interlock.operators import SparkSubmitEventOperator
from interlock.spark.pipeline import job

BEFORE = (
    "event('com.example.orders.done', by='data.date') & event('com.example.rates.published', by='data.date')"
)

with DAG(
    "backtest_condition",
    schedule=None,
    params={
        "condition": Param(BEFORE, type="string"),
        "compare": Param(f"({BEFORE}).within('2h')", type="string"),
    },
    tags=["interlock"],
):
    SparkSubmitEventOperator(
        task_id="backtest",
        name="backtest",
        application=job("backtest"),
        application_args=[
            "--archive", "{{ var.value.interlock_archive }}",
            "--condition", "{{ params.condition }}",
            "--compare", "{{ params.compare }}",
            # A task that is cleared replaces what it wrote before; some file systems take no colons.
            "--output", "{{ var.value.interlock_archive }}_backtests/{{ run_id | replace(':', '') }}",
            "--overwrite",
        ],
        events="none",  # the ends of its queries are of interest to nobody
        env_vars={"PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
