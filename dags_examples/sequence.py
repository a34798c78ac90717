"""Waits until a file was uploaded, then scanned, and then approved, for the batch of the run.

An approval before the scan does not count. Trigger the run with `{"batch": "..."}`.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param
from interlock import event, sequence
from interlock.operators import EventSensor

uploaded = event("com.example.batch.uploaded", by="data.batch", label="uploaded")
scanned = event("com.example.batch.scanned", where="data.clean", by="data.batch", label="scanned")
approved = event("com.example.batch.approved", by="data.batch", label="approved")

with DAG("sequence", schedule=None, params={"batch": Param("", type="string")}, tags=["interlock"]):
    EventSensor(
        task_id="approved",
        condition=sequence(uploaded, scanned, approved),
        fail_on=event("com.example.batch.rejected", by="data.batch", label="rejected"),
        key="{{ params.batch }}",
    )
