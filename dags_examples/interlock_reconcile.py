"""Every quarter of an hour: emit the ends of DAG runs and tasks that the listener could not tell.

The command reads Airflow's database, which Airflow hides from tasks behind these two variables. Without them
it finds the database in the worker's airflow.cfg; where that does not name it, run the command from cron on a
scheduler's machine.
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
        # Three hours: what an outage as long as that swallowed is found, and no run is missed.
        bash_command=(
            "env -u AIRFLOW__DATABASE__SQL_ALCHEMY_CONN -u AIRFLOW__CORE__SQL_ALCHEMY_CONN "
            "airflow interlock reconcile --since 3h --output plain"
        ),
        retries=2,
    )
