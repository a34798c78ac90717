"""Cleans up after each failed run of `rates_ingest`, whatever the cause.

Airflow itself emits the event of the failure: enable the listener with `[interlock] listener = dag_run`.
"""

from __future__ import annotations

from airflow.sdk import DAG, task
from interlock import dag_run
from interlock.operators import dispatch_dag

dispatch_dag(
    "failure_reaction",
    condition=dag_run("rates_ingest", state="failed", label="failed"),
    trigger_dag_id="clean_up",
    conf={"failed_run": "{{ firing.events.failed[0].data.run_id }}"},
    tags=["interlock"],
)

with DAG("clean_up", schedule=None, tags=["interlock"]):

    @task
    def clean_up(failed_run: str) -> str:  # not `run_id`, which Airflow would fill
        return f"removed what {failed_run} left"

    clean_up("{{ dag_run.conf['failed_run'] }}")
