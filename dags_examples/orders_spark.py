"""orders_spark: a PySpark job of one Airflow task, whose end is an event on the bus.

The event comes from the job itself (`completion_event` in jobs/orders.py): nothing here knows who waits.
"""

from __future__ import annotations

from airflow.sdk import DAG
from spark_job import DATA, spark_job

# schedule=None: the demo decides the dates. With "@daily" the logical date is the business date just as well.
with DAG("orders_spark", schedule=None, tags=["interlock"]):
    spark_job("orders", ["--date", "{{ ds }}", "--data", DATA])
