"""Alerts when a station was silent for ten minutes: the Airflow DAG `alert` runs once for each silence.

Watches a station from its first heartbeat on. Each station is a key: this DAG watches hundreds of them.
"""

from __future__ import annotations

from airflow.sdk import DAG, task
from interlock import absent, event
from interlock.operators import dispatch_dag

alive = event("com.example.station.alive", by="subject", label="alive")

dispatch_dag(
    "absence_alert",
    condition=absent(alive, "10m"),
    trigger_dag_id="alert",
    conf={"station": "{{ firing.key }}", "silent_since": "{{ firing.recorded.alive[0] }}"},
    note="{{ firing.key }} is silent",
    tags=["interlock"],
)

with DAG("alert", schedule=None, tags=["interlock"]):

    @task
    def alert(station: str, silent_since: str) -> str:
        return f"{station} has been silent since {silent_since}"

    alert("{{ dag_run.conf['station'] }}", "{{ dag_run.conf['silent_since'] }}")
