"""Asset events from a condition, for DAGs that are scheduled on assets.

Airflow starts one run for asset events in quick succession. That run contains only the first of them; the run
of the next asset event contains the others. Asset events of a paused DAG are dropped. So the task reads all
asset events of its run. If each firing needs a run, see settle_on_trades.py.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task
from interlock import event
from interlock.triggers.asset import ConditionTrigger

closed = event("com.example.market.closed", source="/markets/lse", by="data.date", label="close")
close = Asset(
    "market_close",
    watchers=[AssetWatcher(name="interlock", trigger=ConditionTrigger("market_close", closed))],
)

with DAG("asset_route", schedule=[close], tags=["interlock"]):

    @task
    def days(triggering_asset_events: Any = None) -> list[str]:
        return [each.extra["payload"]["key"] for each in triggering_asset_events[close]]

    days()
