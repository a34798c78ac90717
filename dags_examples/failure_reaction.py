"""Cleans up after each failed run of `rates_ingest`, whoever or whatever failed it.

The failure is told by Airflow itself: switch the listener on with `[interlock] listener = dag_run`.
"""

from __future__ import annotations

from airflow.sdk import DAG, task
from interlock import dag_run
from interlock.operators import dispatch_dag

dispatch_dag(
    "failure_reaction",
    condition=dag_run("rates_ingest", state="failed", label="failed"),
    trigger_dag_id="clean_up",
    conf={"run_id": "{{ firing.events.failed[0].data.run_id }}"},
    tags=["interlock"],
)

with DAG("clean_up", schedule=None, tags=["interlock"]):

    @task
    def clean_up(run_id: str) -> str:
        return f"removed what {run_id} left"

    clean_up("{{ dag_run.conf['run_id'] }}")
