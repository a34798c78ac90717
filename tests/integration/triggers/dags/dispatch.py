"""Dispatchers, their targets, and an asset with a condition."""

from __future__ import annotations

from airflow.sdk import DAG, Asset, AssetWatcher, task
from interlock import event
from interlock.operators import dispatch_dag
from interlock.triggers.asset import ConditionTrigger

with DAG("settle", schedule=None):

    @task
    def settle(dag_run=None) -> str:
        return dag_run.conf["trade"]

    settle()

dispatch_dag(
    "close_on_event",
    condition=event("closed", by="subject", label="closed"),
    trigger_dag_id="close",
    logical_date="{{ firing.events.closed[0].data.day }}",
    note="{{ firing.key }}",
    max_runs_in_flight=3,
)

with DAG("close", schedule=None, max_active_runs=2):

    @task
    def close(dag_run=None) -> None:
        if dag_run.conf["events"]["closed"][0]["data"].get("fails"):
            raise ValueError("as it was told")

    close()

market = Asset(
    "market",
    watchers=[
        AssetWatcher(
            name="interlock",
            trigger=ConditionTrigger("market", event("opened", by="subject", label="opened")),
        )
    ],
)

with DAG("open_on_asset", schedule=[market]):

    @task
    def opened(triggering_asset_events=None) -> list:
        return [e.extra["payload"]["key"] for events in triggering_asset_events.values() for e in events]

    opened()
