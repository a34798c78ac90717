"""Interlock: holds an Airflow task until a condition over events on Kafka is met.

These are the public names. Operators are in `interlock.operators`, what Spark jobs call in `interlock.spark`.
Names are imported at first use: DAG files are parsed often, and Spark executors have no Airflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conditions import (
        Condition,
        ConditionError,
        absent,
        all_of,
        any_of,
        at_least,
        burst,
        count,
        dag_run,
        daily,
        dataset_written,
        day,
        debounce,
        event,
        every_nth,
        heartbeat,
        hour,
        month,
        not_followed_by,
        openlineage_run,
        param,
        sequence,
        spark_application,
        task_instance,
        week,
    )
    from .events.errors import EventError, InterlockError
    from .events.event import Event
    from .triggers.fetch import fetch

__all__ = [
    "Condition",
    "ConditionError",
    "Event",
    "EventError",
    "InterlockError",
    "absent",
    "all_of",
    "any_of",
    "at_least",
    "burst",
    "count",
    "dag_run",
    "daily",
    "dataset_written",
    "day",
    "debounce",
    "event",
    "every_nth",
    "fetch",
    "heartbeat",
    "hour",
    "month",
    "not_followed_by",
    "openlineage_run",
    "param",
    "sequence",
    "spark_application",
    "task_instance",
    "week",
]

_HOME = dict.fromkeys(__all__, ".conditions") | {
    "Event": ".events.event",
    "EventError": ".events.errors",
    "InterlockError": ".events.errors",
    "fetch": ".triggers.fetch",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'interlock' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
