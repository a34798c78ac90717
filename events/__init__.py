"""CloudEvents: the event, its Kafka binding, the emitter, and the event types that Interlock emits."""

from __future__ import annotations

from .emitter import Delivery, Emitter
from .errors import EmitError, EventError, InterlockError
from .event import Event

__all__ = ["Delivery", "EmitError", "Emitter", "Event", "EventError", "InterlockError"]
