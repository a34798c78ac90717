"""The DAGs of `make ha`. Numbers come from the environment: the harness chooses them."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from ha_floor import FloorTask
from interlock import event
from interlock.operators import EventSensor, dispatch_dag

WAITS, FLOORS = (int(os.environ[f"INTERLOCK_HA_{name}"]) for name in ("WAITS", "FLOORS"))
halves = event("ha.first", by="data.key", label="first") & event("ha.second", by="data.key", label="second")
keys = [f"k{number:04}" for number in range(WAITS)]

with DAG("ha_waits", schedule=None, max_active_tasks=2000):
    EventSensor.partial(task_id="wait", condition=halves, timeout=3600).expand(key=keys)

# The same waits, put into `deferred` by the harness.
with DAG("ha_held", schedule=None, max_active_tasks=2000):
    EventSensor.partial(task_id="wait", condition=halves, timeout=3600, pool="held").expand(key=keys)

with DAG("ha_floor", schedule=None, max_active_tasks=2000):
    FloorTask.partial(task_id="floor", pool="held").expand(number=list(range(FLOORS)))

# Few runs in flight: while the target is paused, most firings wait. It is renewed several times in a run.
dispatch_dag(
    "ha_dispatch",
    condition=event("ha.order", by="data.key", label="order"),
    trigger_dag_id="ha_target",
    max_runs_in_flight=40,
    renew_after=timedelta(minutes=3),
)

with DAG("ha_target", schedule=None):
    EmptyOperator(task_id="done")  # the scheduler ends it without a worker
