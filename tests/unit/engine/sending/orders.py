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


def referring(offset: int = 7, **attributes: object) -> OpenFiring:
    """A firing whose event has its data in the record that REF names."""
    origins = {"order": [{"topic": "b-event", "partition": 0, "offset": 5, "timestamp_ms": 0}]}
    return firing(offset, events={"order": [form(dataref=REF, **attributes)]}, origins=origins)
