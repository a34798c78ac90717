"""Dispatchers, their targets, and an asset with a condition."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Asset, AssetWatcher, task
from interlock import event
from interlock.operators import EmitEventOperator, dispatch_dag
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
            raise ValueError("a deliberate failure")

    close()


class FailsOnce(EmitEventOperator):
    # in its first try, when its event is stored
    def execute(self, context):
        place = super().execute(context)
        if context["ti"].try_number == 1:
            raise ValueError("a deliberate failure")
        return place


with DAG("sell", schedule=None):
    again = {"retries": 1, "retry_delay": timedelta(0)}
    FailsOnce(task_id="sell", type="sold", subject="lse", data={"sale": "{{ run_id }}"}, **again)

dispatch_dag(
    "invoice_on_sale",
    condition=event("sold", by="data.sale", label="sold"),
    trigger_dag_id="invoice",
    conf={"event": "{{ firing.events.sold[0].id }}"},
)

with DAG("invoice", schedule=None):

    @task
    def invoice() -> None:
        pass

    invoice()

# One target with logical dates, and one without.
booked = event("booked", by="subject", label="booked")
dispatch_dag(
    "book_on_event",
    condition=booked,
    trigger_dag_id="book",
    logical_date="{{ firing.events.booked[0].data.day }}",
    max_runs_in_flight=1,
)
dispatch_dag("book_undated_on_event", condition=booked, trigger_dag_id="book_undated", max_runs_in_flight=1)

for target in ("book", "book_undated"):
    with DAG(target, schedule=None, default_args={"depends_on_past": True}):

        @task
        def enter(dag_run=None, ti=None) -> dict:
            if dag_run.conf["key"] == "lse" and ti.try_number == 1:
                raise ValueError("a deliberate failure")
            dates = ("logical_date", "data_interval_start", "data_interval_end", "run_after")
            return {name: str(getattr(dag_run, name)) for name in dates}

        enter()

# Its runs are those of `airflow dags test` alone.
dispatch_dag(
    "dispatch_tried",
    condition=event("tried", by="subject", label="tried"),
    trigger_dag_id="tried",
    since=datetime(2026, 1, 1, tzinfo=UTC),
    renew_after=timedelta(minutes=1),
)

with DAG("tried", schedule=None):

    @task
    def tried() -> None:
        pass

    tried()

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
