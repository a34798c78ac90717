"""JSON Schemas of the data of the events that Interlock emits, one file for each version.

A version may get new members at any time. A change that would make earlier data invalid needs a new version.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Final

from ..taxonomy import (
    DAG_RUN,
    SPARK_APPLICATION,
    SPARK_APPLICATION_STARTED,
    SPARK_QUERY_TYPES,
    SPARK_STREAMING_QUERY_TYPES,
    TASK_INSTANCE,
)

AIRFLOW_DAG_RUN: Final = "airflow.dag_run.v1"
AIRFLOW_TASK_INSTANCE: Final = "airflow.task_instance.v1"
SPARK: Final = "spark.application.v1"
SPARK_QUERY: Final = "spark.query.v1"
SPARK_STREAMING_QUERY: Final = "spark.streaming_query.v1"

_OF_TYPE: Final = {
    **dict.fromkeys(DAG_RUN.values(), AIRFLOW_DAG_RUN),
    **dict.fromkeys(TASK_INSTANCE.values(), AIRFLOW_TASK_INSTANCE),
    **dict.fromkeys((SPARK_APPLICATION_STARTED, *SPARK_APPLICATION.values()), SPARK),
    **dict.fromkeys(SPARK_QUERY_TYPES.values(), SPARK_QUERY),
    **dict.fromkeys(SPARK_STREAMING_QUERY_TYPES.values(), SPARK_STREAMING_QUERY),
}


def urn(name: str) -> str:
    """Returns the `dataschema` of events with this schema; it is the schema's `$id`."""
    return f"urn:interlock:schema:{name}"


def data_schema(event_type: str) -> dict[str, Any]:
    """Returns the current data schema of an event type that Interlock emits. Raises KeyError for others."""
    name = _OF_TYPE[event_type]
    schema: dict[str, Any] = json.loads(files(__name__).joinpath(f"{name}.json").read_text("utf-8"))
    return schema
