"""JSON Schemas of the data of the events that Interlock emits, one file for each version.

A version that was published is not changed: what makes data of before invalid takes a new one. Further
members may appear at any time.
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
    """What an event's `dataschema` says of a schema; it is the schema's `$id`."""
    return f"urn:interlock:schema:{name}"


def data_schema(event_type: str) -> dict[str, Any]:
    """The schema of the data of a type that Interlock emits, as it is emitted now; KeyError for others."""
    name = _OF_TYPE[event_type]
    schema: dict[str, Any] = json.loads(files(__name__).joinpath(f"{name}.json").read_text("utf-8"))
    return schema
