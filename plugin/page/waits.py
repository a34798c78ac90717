"""`GET /waits`: the subscriptions that are registered, a page at a time. `GET /buses`: where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ...engine.following.read_model import Rows
from ...events.errors import InterlockError
from ...events.visible import visible
from .airflow_facts import Dispatching, dispatching
from .answers import Asks, plain
from .buses import Bus, Buses
from .rights import User
from .rows import RowMaker, dispatcher_dags

router = APIRouter()
MOST_ROWS: Final = 200
_DISPATCHERS_FRESH_S: Final = 30.0

Text = Annotated[str, Query(max_length=1000)]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS)]


@router.get("/buses")
def buses(request: Request, rights: User) -> Response:
    """The buses that the page shows; with an `error` instead of names where a connection cannot be read."""
    shown: Buses = request.app.state.buses
    rows: list[dict[str, Any]] = []
    for conn_id in shown.conn_ids:
        row: dict[str, Any] = {"conn_id": conn_id, "bus": "", "cluster": "", "deployment": ""}
        row["may"] = {"operate": rights.operates(conn_id)}
        try:
            config = shown.bus(conn_id).config
        except InterlockError as error:
            row["error"] = visible(error) if row["may"]["operate"] else "Its connection cannot be read."
        else:
            row |= {"bus": config.name, "cluster": config.bootstrap_servers, "deployment": config.deployment}
        rows.append(row)
    return plain({"buses": rows, "may": {"operate": any(row["may"]["operate"] for row in rows)}})


@router.get("/waits")
def waits(
    asks: Asks,
    kind: Literal["one-shot", "durable"] | None = None,
    dag_id: Text = "",
    search: Text = "",
    key: Text = "",
    type: Text = "",  # noqa: A002  # CloudEvents' word
    order: Literal["newest", "oldest"] = "newest",
    after: Annotated[int | None, Query(ge=0, le=2**62)] = None,
    limit: Limit = 50,
) -> Response:
    """The registered subscriptions that match, in the order of their registration."""
    model = asks.model()
    asks.unless_known(model)
    wanted = Rows(
        kind,
        dag_id or None,
        search,
        key or None,
        type or None,
        asks.rights.dags,
        newest_first=order == "newest",
    )
    page = model.page(wanted, limit, after)
    names = [each.registration.subscription for each in page.rows]
    maker = RowMaker(model, model.subscriptions, dispatchers_of(asks.bus, names))
    rows = [maker.row(each) for each in page.rows]
    return asks.answer({"rows": rows, "next": page.next, "total": page.total})


def dispatchers_of(bus: Bus, names: list[str]) -> Mapping[str, Dispatching]:
    """What the dispatchers among these subscriptions do, as Airflow's database said some seconds ago."""
    dags = dispatcher_dags(names, bus.config.deployment)
    if not dags:
        return {}
    return bus.ask(("dispatchers", tuple(dags)), lambda: dispatching(dags), _DISPATCHERS_FRESH_S)
