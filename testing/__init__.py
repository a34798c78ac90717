"""Tests of conditions, waits, dispatchers, deliveries and relays without Kafka: "given this, does it fire?"

Pytest fixtures are in `interlock.testing.fixtures`, a plugin that must be named in conftest.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .condition import Tried, fires
    from .dags import dags_in
    from .deliver import DeliveryRequest, requests_of
    from .dispatch import DispatchedRun, runs_of
    from .events import dag_run_end, record, spark_application_end, task_instance_end
    from .relay import events_of
    from .wait import WaitingTask, WaitResult, wait_of

__all__ = [
    "DeliveryRequest",
    "DispatchedRun",
    "Tried",
    "WaitResult",
    "WaitingTask",
    "dag_run_end",
    "dags_in",
    "events_of",
    "fires",
    "record",
    "requests_of",
    "runs_of",
    "spark_application_end",
    "task_instance_end",
    "wait_of",
]

_MODULES = dict.fromkeys(__all__, ".events") | {
    "DeliveryRequest": ".deliver",
    "DispatchedRun": ".dispatch",
    "Tried": ".condition",
    "WaitResult": ".wait",
    "WaitingTask": ".wait",
    "dags_in": ".dags",
    "events_of": ".relay",
    "fires": ".condition",
    "requests_of": ".deliver",
    "runs_of": ".dispatch",
    "wait_of": ".wait",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'interlock.testing' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
