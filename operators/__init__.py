"""What an author places in a DAG."""

from __future__ import annotations

from .emit import EmitEventOperator
from .wait import EventSensor

__all__ = ["EmitEventOperator", "EventSensor"]
