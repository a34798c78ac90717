"""Firings of orders, for tests of deliveries over HTTP."""

from __future__ import annotations

from interlock.engine.delivery.firings import OpenFiring

from tests.kit.posting import form
from tests.unit.engine.delivery.firings import firing

SOON_S = 0.3  # a timeout of deliveries that must not be answered in time
REF = "kafka:b-event/0/5"


def ordered(offset: int = 7, data: object = None, **attributes: object) -> OpenFiring:
    """A firing with one event."""
    return firing(offset, events={"order": [form({"n": 1} if data is None else data, **attributes)]})


def referring(offset: int = 7, partition: int = 0, **attributes: object) -> OpenFiring:
    """A firing whose event has its data in a record: the one that REF names, or that of another partition."""
    origins = {"order": [{"topic": "b-event", "partition": partition, "offset": 5, "timestamp_ms": 0}]}
    dataref = f"kafka:b-event/{partition}/5"
    return firing(offset, events={"order": [form(dataref=dataref, **attributes)]}, origins=origins)
