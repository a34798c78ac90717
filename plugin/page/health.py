"""`GET /health`: the state of a bus, as `airflow interlock health` has it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from ...conditions.explanation.wording import counted
from ...engine.admin.health import examine
from .answers import Asks

router = APIRouter()
_FRESH_S: Final = 30.0  # it reads the registrations anew, which is a second of work at 100,000 waits


@router.get("/health")
def health(asks: Asks) -> Response:
    """All of it for who may edit the connection; for others whether the bus is well, and how much waits."""
    config = asks.bus.config
    found = asks.bus.ask("health", lambda: examine(config), _FRESH_S)
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
