"""`GET /health`: the state of a bus, as `airflow interlock health` has it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from ...conditions.explanation.wording import counted
from ...engine.admin.health import examine
from ...engine.errors import EngineError
from ...engine.kafka.topics import read_registry
from ...engine.registry.lazy import LazyRegistry
from .answers import Asks
from .buses import Bus

router = APIRouter()
_FRESH_S: Final = 30.0


def _registry(bus: Bus) -> LazyRegistry:
    """What is registered: as the read model has it, or read anew, if there is no model that is up to date."""
    with suppress(EngineError):
        model = bus.model()
        if model.stale_since_ms is None:
            return model.registry()
    return read_registry(bus.config, known=False)


@router.get("/health")
def health(asks: Asks) -> Response:
    """All of it for who may edit the connection; for others whether the bus is well, and how much waits."""
    config = asks.bus.config
    found = asks.bus.ask("health", lambda: examine(config, registry=partial(_registry, asks.bus)), _FRESH_S)
    if asks.rights.operates(asks.bus.conn_id):
        return asks.answer({"ok": found.ok, **asdict(found)})
    registrations = {name: found.registrations.get(name, 0) for name in ("one_shot", "durable")}
    problems = []
    if not found.ok:
        number = counted(len(found.problems), "problem", "problems")
        problems = [f"{number}: who may edit connection {config.connection!r} sees what to do."]
    return asks.answer(
        {
            "ok": found.ok,
            "bus": found.bus,
            "problems": problems,
            "registrations": registrations,
            "partial": True,
        }
    )
