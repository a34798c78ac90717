"""Operators, the sensor and `dispatch_dag`: what authors use in DAG files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .dispatch import dispatch_dag
from .emit import EmitEventOperator, emit
from .wait import EventSensor

if TYPE_CHECKING:
    from .spark_submit import SparkSubmitEventOperator

__all__ = ["EmitEventOperator", "EventSensor", "SparkSubmitEventOperator", "dispatch_dag", "emit"]


def __getattr__(name: str) -> object:
    # The Spark provider takes 0.1 s to import, so it is imported only by DAG files that use it.
    if name != "SparkSubmitEventOperator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from .spark_submit import SparkSubmitEventOperator
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("airflow.providers"):
            raise
        raise ImportError(
            f"{name} needs Airflow's Spark provider, which is not installed: "
            "pip install 'airflow-interlock[spark]'"
        ) from error
    return SparkSubmitEventOperator
