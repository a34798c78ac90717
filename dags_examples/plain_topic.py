"""Waits on a topic of plain JSON, whose producers do not use CloudEvents.

A record becomes an event with the topic as source, the record key as subject and the value as data. An
administrator adds the topic to the bus once: `airflow interlock topics add raw_orders`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG
from interlock import event
from interlock.operators import EventSensor

done = event(
    source="raw_orders", where="data.status == 'done' && data.rows > 0", by="data.day", label="order"
)

with DAG("plain_topic", schedule="@daily", tags=["interlock"]):
    EventSensor(task_id="order_done", condition=done, key="{{ ds }}", timeout=timedelta(hours=6))
