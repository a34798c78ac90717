"""What an author places in a DAG."""

from __future__ import annotations

from .dispatch import dispatch_dag
from .emit import EmitEventOperator, emit
from .wait import EventSensor

__all__ = ["EmitEventOperator", "EventSensor", "dispatch_dag", "emit"]
