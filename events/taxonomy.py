"""Types of the events that Interlock emits. They are public: a type is never renamed.

The mappings give the event type for each state, in the words of Airflow or Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SPARK_APPLICATION_STARTED: Final = "interlock.spark.application.started"
SPARK_APPLICATION_SUCCEEDED: Final = "interlock.spark.application.succeeded"
SPARK_APPLICATION_FAILED: Final = "interlock.spark.application.failed"
SPARK_QUERY_SUCCEEDED: Final = "interlock.spark.query.succeeded"
SPARK_QUERY_FAILED: Final = "interlock.spark.query.failed"
SPARK_STREAMING_QUERY_STARTED: Final = "interlock.spark.streaming_query.started"
SPARK_STREAMING_QUERY_SUCCEEDED: Final = "interlock.spark.streaming_query.succeeded"
SPARK_STREAMING_QUERY_FAILED: Final = "interlock.spark.streaming_query.failed"
DAG_RUN_SUCCEEDED: Final = "interlock.airflow.dag_run.succeeded"
DAG_RUN_FAILED: Final = "interlock.airflow.dag_run.failed"
TASK_INSTANCE_SUCCEEDED: Final = "interlock.airflow.task_instance.succeeded"
TASK_INSTANCE_FAILED: Final = "interlock.airflow.task_instance.failed"
TASK_INSTANCE_SKIPPED: Final = "interlock.airflow.task_instance.skipped"

SPARK_APPLICATION: Final[Mapping[str, str]] = {
    "succeeded": SPARK_APPLICATION_SUCCEEDED,
    "failed": SPARK_APPLICATION_FAILED,
}
SPARK_QUERY_TYPES: Final[Mapping[str, str]] = {
    "succeeded": SPARK_QUERY_SUCCEEDED,
    "failed": SPARK_QUERY_FAILED,
}
SPARK_STREAMING_QUERY_TYPES: Final[Mapping[str, str]] = {
    "started": SPARK_STREAMING_QUERY_STARTED,
    "succeeded": SPARK_STREAMING_QUERY_SUCCEEDED,
    "failed": SPARK_STREAMING_QUERY_FAILED,
}
DAG_RUN: Final[Mapping[str, str]] = {"success": DAG_RUN_SUCCEEDED, "failed": DAG_RUN_FAILED}
TASK_INSTANCE: Final[Mapping[str, str]] = {
    "success": TASK_INSTANCE_SUCCEEDED,
    "failed": TASK_INSTANCE_FAILED,
    "skipped": TASK_INSTANCE_SKIPPED,
}
EMITTED: Final = (
    SPARK_APPLICATION_STARTED,
    *SPARK_APPLICATION.values(),
    *SPARK_QUERY_TYPES.values(),
    *SPARK_STREAMING_QUERY_TYPES.values(),
    *DAG_RUN.values(),
    *TASK_INSTANCE.values(),
)
