"""Operators, the sensor, `dispatch_dag`, `deliver_dag` and `relay_dag`: what authors use in DAG files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .deliver import deliver_dag
from .dispatch import dispatch_dag
from .emit import EmitEventOperator, emit
from .relay import relay_dag
from .wait import EventSensor

_SPARK_SUBMIT = "SparkSubmitEventOperator"

if TYPE_CHECKING:
    from .spark_submit import SparkSubmitEventOperator

    __all__ = [
        "EmitEventOperator",
        "EventSensor",
        "SparkSubmitEventOperator",
        "deliver_dag",
        "dispatch_dag",
        "emit",
        "relay_dag",
    ]


def __getattr__(name: str) -> object:
    if name == "__all__":  # read by `import *`, which must not fail without the Spark provider
        names = ["EmitEventOperator", "EventSensor", "deliver_dag", "dispatch_dag", "emit", "relay_dag"]
        return sorted([*names, _SPARK_SUBMIT]) if _spark_submit() is not None else names
    if name != _SPARK_SUBMIT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    operator = _spark_submit()
    if operator is None:
        raise ImportError(
            f"{name} needs Airflow's Spark provider, which is not installed: "
            "pip install 'airflow-interlock[spark]'"
        )
    return operator


def _spark_submit() -> type[SparkSubmitEventOperator] | None:
    """Returns the operator, None without the Spark provider.

    The provider takes 0.1 s to import, so it is imported only by DAG files that use it.
    """
    try:
        from .spark_submit import SparkSubmitEventOperator
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("airflow.providers"):
            raise
        return None
    return SparkSubmitEventOperator
