"""What the page changes: it cancels waits, skips firings, sends events, and sends dead letters again.

Each POST passes `guarded`, asks the auth manager, and is written to Airflow's audit log before it is done.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any, Final

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from ...engine.admin.dead_letters import DeadLetters
from ...engine.admin.redrive import Planned, planned, redrive
from ...engine.admin.skipping import open_firing_at
from ...engine.config import BusConfig
from ...engine.errors import UnreachableError
from ...engine.following.owner import owner_of
from ...engine.records import partition_of
from ...engine.waiting.acknowledge import acknowledge_all
from ...events.emitter import Delivery, Emitter
from ...events.errors import InterlockError
from ...events.event import Event
from ...events.listed import is_own
from .answers import plain
from .audit import record
from .buses import Bus, Buses
from .rights import Guarded, Rights, User
from .rows import owner_by_name

router = APIRouter(dependencies=[Guarded])
MOST_PLACES: Final = 1000
_TIMEOUT_S: Final = 8.0
_NO_EDIT: Final = "change this: it needs the right to edit runs of its DAG"
_NO_OPERATION: Final = "do this: it needs the right to edit connection {!r}"

Id = Annotated[str, Field(min_length=1, max_length=1000)]
Text = Annotated[str, Field(max_length=1000)]


class _Body(BaseModel):
    """A request for a bus. Members that are not known are refused: a misspelled one would be ignored."""

    model_config = ConfigDict(extra="forbid")

    bus: Annotated[str, Field(max_length=250)] = ""


class Cancelling(_Body):
    name: Id


class Skipping(_Body):
    name: Id
    firing: Id


class Emitting(_Body):
    type: Id
    source: Text | None = None
    subject: Text | None = None
    data: Any = None
    extensions: Annotated[dict[str, Text], Field(max_length=50)] = {}


class Redriving(_Body):
    places: Annotated[
        list[Annotated[str, Field(max_length=300)]], Field(min_length=1, max_length=MOST_PLACES)
    ]
    preview: bool


@router.post("/cancel")
def cancel(request: Request, rights: User, body: Cancelling) -> Response:
    """Remove a registration, unless a process holds it."""
    bus = _bus(request, body)
    model = bus.model()
    registered = model.by_name(body.name)
    if registered is None:
        dag_id = owner_by_name(body.name, bus.config.deployment).dag_id
    else:
        dag_id = owner_of(body.name, registered.registration.kind, bus.config.deployment).dag_id
    rights.require(rights.edits(dag_id, bus.conn_id), _NO_EDIT)
    if registered is None:
        raise HTTPException(404, f"Nothing is registered as {body.name!r}: it has fired, or was cancelled.")
    if model.stale_since_ms is not None:
        raise UnreachableError("The brokers do not answer, so it is not known who holds it.")
    subscriptions = model.subscriptions
    if refusal := subscriptions.refusal(registered):
        raise HTTPException(409, refusal)
    record(rights, "cancel", dag_id, {"bus": bus.config.name, "subscription": body.name})
    _do(bus, lambda: subscriptions.cancel(registered))
    return plain({"cancelled": body.name})


@router.post("/skip")
def skip(request: Request, rights: User, body: Skipping) -> Response:
    """Discard an open firing of a durable subscription: no run comes of it, and it is not delivered."""
    bus = _bus(request, body)
    dag_id = owner_of(body.name, "durable", bus.config.deployment).dag_id
    rights.require(rights.edits(dag_id, bus.conn_id), _NO_EDIT)
    model = bus.model()
    config, partitions = bus.config, model.subscriptions.partitions
    found = model.firings(MOST_PLACES, subscription=body.name, only_open=True).rows
    fired = next((each for each in found if each.id == body.firing and each.kind == "durable"), None)
    if fired is None:
        raise HTTPException(404, f"{body.name!r} has no open firing {body.firing!r} among the latest ones.")
    partition = partition_of("durable", body.name, fired.key or "", partitions)
    record(rights, "skip", dag_id, {"bus": config.name, "subscription": body.name, "firing": body.firing})

    def act() -> None:
        acknowledge_all(config, [open_firing_at(config, body.name, body.firing, partition)])

    _do(bus, act)
    return plain({"skipped": body.firing})


@router.post("/emit")
def emit(request: Request, rights: User, body: Emitting) -> Response:
    """Send an event; the answer comes when Kafka has it. Types of Interlock itself are refused."""
    bus = _bus(request, body)
    _require_operator(rights, bus)
    if is_own(body.type):
        raise HTTPException(
            403, f"Events of type {body.type!r} are Interlock's own: nobody writes them by hand."
        )
    sent = Event.of(
        body.type,
        body.source or f"/{bus.config.deployment}/page",
        subject=body.subject or None,
        data=None if body.data is None else json.dumps(body.data).encode(),
        datacontenttype=None if body.data is None else "application/json",
        **_extensions(body.extensions),
    )
    identity = {"id": sent.id, "source": sent.source, "type": sent.type}
    record(rights, "emit", None, {"bus": bus.config.name, **identity})
    place = _do(bus, lambda: _emitted(bus.config, sent))
    return plain({"event": identity, **place._asdict()})


@router.post("/redrive")
def redrive_(request: Request, rights: User, body: Redriving) -> Response:
    """Send dead letters again, as far as they may be; with `preview`, say what would be sent."""
    bus = _bus(request, body)
    _require_operator(rights, bus)
    plan = _do(bus, lambda: _plan(bus.config, body.places))
    chosen = [each for each in plan if not each.refused]
    if not body.preview and chosen:
        places = [each.dead_letter.place for each in chosen]
        record(rights, "redrive", None, {"bus": bus.config.name, "places": places[:20], "count": len(places)})
        sent = _do(bus, lambda: _send(bus.config, chosen))
        gone = "retention removed it before it was sent"
        plan = [
            each if each.refused or each.dead_letter.place in sent else each._replace(refused=gone)
            for each in plan
        ]
    return plain(
        {
            "rows": [
                {"place": each.dead_letter.place, "to": each.to, "refused": each.refused or None}
                for each in plan
            ]
        }
    )


def _bus(request: Request, body: _Body) -> Bus:
    buses: Buses = request.app.state.buses
    return buses.bus(body.bus)


def _require_operator(rights: Rights, bus: Bus) -> None:
    rights.require(rights.operates(bus.conn_id), _NO_OPERATION.format(bus.conn_id))


def _do(bus: Bus, act: Any) -> Any:
    """What `act()` returns. Whoever asks next sees what has changed."""
    try:
        return bus.questions.do(act)
    finally:
        bus.questions.forget()


def _extensions(given: dict[str, str]) -> dict[str, Any]:
    """The extension attributes. Raises the answer 400 for a name that is an attribute of its own."""
    own = ("id", "source", "specversion", "type", "subject", "time", "data", "datacontenttype", "dataschema")
    if wrong := [name for name in given if name in own]:
        raise HTTPException(400, f"{wrong[0]} is no extension attribute: it has a field of its own, or none.")
    return dict(given)


def _emitted(config: BusConfig, sent: Event) -> Delivery:
    with Emitter(config.client, config.topic("event")) as emitter:
        return emitter.emit(sent, timeout_s=_TIMEOUT_S)


def _plan(config: BusConfig, places: Sequence[str]) -> list[Planned]:
    with closing(DeadLetters(config)) as dead_letters:
        return planned(config, dead_letters.at(places), dead_letters.readers())


def _send(config: BusConfig, chosen: Sequence[Planned]) -> set[str]:
    """The places of those that were sent. Raises UnreachableError, which says how many were."""
    sent: set[str] = set()
    with closing(DeadLetters(config)) as dead_letters:
        try:
            for batch in redrive(config, dead_letters.records([each.dead_letter for each in chosen])):
                sent.update(each.place for each in batch)
        except InterlockError as error:
            raise UnreachableError(
                f"{error} {len(sent)} of {len(chosen)} were sent, and up to 100 more may have been: the list "
                "of dead letters says which. Send the rest again."
            ) from error
    return sent
