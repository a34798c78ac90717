"""Backtest, triggered by hand: compares the firings of two conditions over the archived events.

Trigger it with the two conditions as text, and with arguments of a `deliver_dag` as JSON: it shows what would
have been delivered. The summary is in the task's log; firings and deliveries are Parquet files.
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
        "deliver": Param('{"dag_id": "settle", "conn_id": "settlements", "order": "key"}', type="string"),
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
            "--deliver", "{{ params.deliver }}",
            # A cleared task overwrites its earlier output. Some file systems do not allow colons.
            "--output", "{{ var.value.interlock_archive }}_backtests/{{ run_id | replace(':', '') }}",
            "--overwrite",
        ],
        events="none",  # nothing waits for its queries
        env_vars={"PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
