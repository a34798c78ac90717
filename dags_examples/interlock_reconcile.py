"""Emits missing completion events of DAG runs and tasks every 15 minutes.

The command needs Airflow's database, which Airflow hides from tasks with two variables. The task removes
them, so that the command reads the address in the worker's airflow.cfg. If the file has none, run the
command from cron on a scheduler's machine.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    "interlock_reconcile",
    schedule=timedelta(minutes=15),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
):
    BashOperator(
        task_id="reconcile",
        # Three hours, so that the events of an outage of that length are found.
        bash_command=(
            "env -u AIRFLOW__DATABASE__SQL_ALCHEMY_CONN -u AIRFLOW__CORE__SQL_ALCHEMY_CONN "
            "airflow interlock reconcile --since 3h --output plain"
        ),
        retries=2,
    )
