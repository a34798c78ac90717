"""announce_report: this Airflow DAG tells a service over HTTP that a report is written; part of `make demo`.

The service gets the completion event of the report's Spark application as it was emitted. Its address and
password are in the Airflow connection `report_readers`, of type http.
"""

from __future__ import annotations

from interlock import event
from interlock.operators import deliver_dag

deliver_dag(
    "announce_report",
    condition=event("interlock.spark.application.succeeded", subject="daily_report", by="data.date"),
    conn_id="report_readers",
    path="/reports",
    tags=["interlock"],
)
