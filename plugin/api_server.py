"""The receiver in Airflow's API server: it takes events over HTTP from users of Airflow (ADR 32)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from ..receiver.answers import Response, problem
from ..receiver.app import Receiver, RequestLimits
from ..receiver.credentials import bearer_token
from ..receiver.endpoint import Request, Senders
from ..receiver.grant import Grant
from ..receiver.late_producer import LateProducer
from ..receiver.server import DELIVERY_S, ReceiverOptions, endpoints
from ..receiver.tokens import MOST_TOKEN_BYTES

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ..engine.config import BusConfig

PATH: Final = "/interlock"
LIMITS: Final = RequestLimits(held_bytes=16 * 1024 * 1024)  # of one process, which has other work too

USER: Final = Grant("a user of Airflow", ["*"])
_REALM: Final = 'Bearer realm="airflow"'
UNKNOWN: Final = problem(
    401,
    "Send the header `authorization: Bearer TOKEN` with a token of Airflow, which POST /auth/token returns. A"
    " cookie does not count.",
    www_authenticate=_REALM,
)
INVALID: Final = problem(
    401,
    "Airflow does not accept the token: it has expired, was revoked, or is not one of this Airflow. Get"
    " another one from POST /auth/token.",
    www_authenticate=f'{_REALM}, error="invalid_token"',
)
FORBIDDEN: Final = problem(
    403, "This user may not create asset events (POST on assets), which writing events needs."
)
FROM_A_PAGE: Final = problem(
    403,
    "This request comes from a web page (it has the header Origin). Airflow's API server takes events from"
    " programs only.",
)


class Users:
    """Recognises a user of Airflow by the bearer token in the header `authorization`, and by nothing else.

    A cookie would let any web page write events with the session of whoever looks at it. Some of Airflow's
    settings log everybody in and add the header themselves, so requests of web pages are refused.

    manager: Airflow's auth manager.
    """

    def __init__(self, manager: Callable[[], Any]) -> None:
        self._manager = manager

    async def admit(self, request: Request) -> Grant | Response:
        """What the user may write; 401 without a valid token, 403 without the right or from a web page."""
        from jwt import InvalidTokenError
        from starlette.concurrency import run_in_threadpool

        if b"origin" in request.last:
            return FROM_A_PAGE
        token = bearer_token(request)
        if token is None:
            return UNKNOWN
        if len(token) > MOST_TOKEN_BYTES:
            return INVALID
        manager = self._manager()
        try:
            user = await manager.get_user_from_token(token.decode("latin-1"))
        except (InvalidTokenError, ValueError, TypeError, OverflowError, RecursionError):
            return INVALID
        # In a thread, as in Airflow's own routes: some auth managers ask a service.
        may_write = await run_in_threadpool(partial(_may_write, manager, user))
        return USER if may_write else FORBIDDEN


def _may_write(manager: Any, user: Any) -> bool:
    """Whether Airflow lets the user create asset events: the check of its route POST /assets/events."""
    from airflow.api_fastapi.auth.managers.models.resource_details import AssetDetails

    return bool(manager.is_authorized_asset(method="POST", details=AssetDetails(), user=user))


@cache
def fastapi_apps(conn_id: str) -> list[dict[str, Any]]:
    """The apps that the API server mounts. conn_id: of the connection with which they write."""
    from ..triggers.settings import RECEIVER

    app = receiver_app(Users(_auth_manager), partial(bus_of, conn_id, RECEIVER))
    return [{"app": app, "url_prefix": PATH, "name": "Interlock's receiver"}]


def _auth_manager() -> Any:
    from airflow.api_fastapi.app import get_auth_manager  # takes seconds where no API server has imported it

    return get_auth_manager()


def receiver_app(users: Senders, read: Callable[[], BusConfig]) -> FastAPI:
    """The app that the API server mounts. It opens a Kafka client at the first event.

    users: recognise who sends. read: returns the bus; may raise ConfigError (see LateProducer).

    It is a FastAPI because the API server runs the lifespan of no other kind of app that it mounts.
    """
    from airflow.sdk.configuration import conf
    from fastapi import FastAPI
    from starlette.routing import Route

    from ..triggers.settings import SECTION, InterlockSettings
    from ..triggers.stats import airflow_stats, request_counter

    bus, deployment = (
        conf.get(SECTION, name, fallback=getattr(InterlockSettings, name)) for name in ("bus", "deployment")
    )
    receiver = Receiver(
        endpoints(ReceiverOptions(), users),
        LIMITS,
        observe=request_counter(airflow_stats(), bus, deployment),
        has_probes=False,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        producer = LateProducer(read, DELIVERY_S)
        receiver.writer = producer
        yield
        receiver.writer = None
        await producer.close()

    app = FastAPI(title="Interlock's receiver", lifespan=lifespan, openapi_url=None)
    app.router.routes.append(Route("/{path:path}", receiver))
    return app


def bus_of(conn_id: str, option: str) -> BusConfig:
    """The bus of the connection, read from Airflow. Raises ConfigError if it cannot be read or used.

    option: of section `[interlock]`, which names the connection.
    """
    from airflow.exceptions import AirflowNotFoundException
    from airflow.models.connection import Connection

    from ..engine.errors import ConfigError
    from ..triggers.settings import SECTION, bus_config

    setting = f"[{SECTION}] {option}"
    try:
        connection = Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        raise ConfigError(f"There is no Airflow connection {conn_id!r}, which {setting} names.") from None
    except Exception as error:  # secrets backends may raise anything
        text = f"Connection {conn_id!r}, which {setting} names, cannot be read: {error}"
        raise ConfigError(text) from error
    return bus_config(connection)
