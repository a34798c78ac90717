"""orders_spark: a PySpark job in one Airflow task that emits a completion event.

The job itself emits the event (`completion_event` in jobs/orders.py); this DAG does not know what waits.
"""

from __future__ import annotations

from airflow.sdk import DAG
from spark_job import DATA, spark_job

# schedule=None: the demo chooses the dates. With "@daily", too, the logical date is the business date.
with DAG("orders_spark", schedule=None, tags=["interlock"]):
    spark_job("orders", ["--date", "{{ ds }}", "--data", DATA])
