"""The page's FastAPI app, which the API server mounts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any, Final

from fastapi import FastAPI

from ...engine.config import BusConfig
from ...triggers.settings import PAGE
from ..api_server import bus_of
from . import actions, bundle, dead_letters, events, firings, graph, health, wait, waits
from .answers import handle_errors
from .buses import Buses
from .ui_apps import PATH

_VIEWS: Final = (bundle, waits, wait, firings, events, dead_letters, graph, health, actions)


@cache
def fastapi_apps(conn_ids: tuple[str, ...]) -> list[dict[str, Any]]:
    """The apps that the API server mounts. conn_ids: of the connections whose buses the page shows."""
    app = page_app(conn_ids, partial(bus_of, option=PAGE))
    return [{"app": app, "url_prefix": PATH, "name": "Interlock's page"}]


def page_app(conn_ids: Sequence[str], read: Callable[[str], BusConfig]) -> FastAPI:
    """The page's app. It reads and connects at the first request that needs it.

    read: returns the bus of a connection; may raise ConfigError, and may block.
    """
    buses = Buses(conn_ids, read)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        buses.close()

    # Airflow protects neither routes of plugins nor their documentation, which lists them.
    app = FastAPI(
        title="Interlock's page",
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.buses = buses
    handle_errors(app)
    for view in _VIEWS:
        app.include_router(view.router)
    return app
