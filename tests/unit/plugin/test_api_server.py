"""The receiver in Airflow's API server, mounted as the API server mounts it, with a faked auth manager."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import httpx
import pytest
from airflow.exceptions import AirflowNotFoundException
from airflow.plugins_manager import is_valid_plugin
from fastapi import FastAPI
from interlock.engine.config import BusConfig
from interlock.engine.errors import ConfigError
from interlock.events import Event
from interlock.plugin import entry
from interlock.plugin.api_server import Users, bus_of, fastapi_apps, receiver_app
from interlock.receiver import late_producer
from interlock.triggers.settings import RECEIVER
from jwt import ExpiredSignatureError, InvalidTokenError
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware

EVENTS, LINEAGE = "/interlock/events", "/interlock/api/v1/lineage"
BUS = BusConfig(name="prod", client={"bootstrap.servers": "192.0.2.1:1"})
RUN = {
    "eventType": "COMPLETE", "eventTime": "2026-11-20T06:00:00Z", "producer": "https://p", "schemaURL": "https://s",
    "run": {"runId": "01890c7e-7a3b-7000-8000-000000000000"}, "job": {"namespace": "shop", "name": "load"},
}  # fmt: skip


class Manager:
    """An auth manager that knows the token of an operator and of a viewer."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.tokens: list[str] = []
        self.authorizations: list[tuple[str, Any, bool]] = []

    async def get_user_from_token(self, token: str) -> str:
        self.tokens.append(token)
        if self.error is not None:
            raise self.error
        if token not in ("op", "viewer"):
            raise InvalidTokenError(token)
        return token

    def is_authorized_asset(self, *, method: str, user: str, details: Any) -> bool:
        self.authorizations.append((method, details, threading.current_thread() is threading.main_thread()))
        return user == "op"


class Producer:
    """Keeps the events; one for each that was opened."""

    opened: ClassVar[list[Producer]] = []

    def __init__(self, config: BusConfig, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        if config.name == "refused":
            raise ConfigError("the client refuses a property")
        assert loop.is_running()
        # It may block: a client that needs a token waits for it.
        assert threading.current_thread() is not threading.main_thread()
        self.events: list[Event] = []
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.is_closed = False
        self.opened.append(self)

    async def write(self, events: list[Event]) -> None:
        await self.may_write.wait()
        self.events += events

    def close(self) -> None:
        assert threading.current_thread() is not threading.main_thread()
        self.is_closed = True


@pytest.fixture(autouse=True)
def _producers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_producer, "EventProducer", Producer)
    monkeypatch.setattr(Producer, "opened", [])


@asynccontextmanager
async def mounted(
    manager: Manager | None = None, read: Callable[[], BusConfig] = lambda: BUS
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that mounts the app, while the app's lifespan lasts."""
    users = manager or Manager()
    app, server = receiver_app(Users(lambda: users), read), FastAPI()
    server.mount("/interlock", app)
    # As in Airflow, where the first one makes each answer a stream, and the second compresses streams.
    server.add_middleware(BaseHTTPMiddleware, dispatch=lambda request, call_next: call_next(request))
    server.add_middleware(GZipMiddleware, minimum_size=1024)
    transport = httpx.ASGITransport(server)
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://airflow") as client,
        app.router.lifespan_context(app),
    ):
        yield client


def run(check: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(check())  # type: ignore[arg-type]


def headers(token: str | None = "op", **attributes: str) -> dict[str, str]:
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **attributes}
    found = {f"ce-{name}": value for name, value in event.items()}
    return found if token is None else {**found, "authorization": f"Bearer {token}"}


def written() -> list[str]:
    return [event.id for producer in Producer.opened for event in producer.events]


def test_a_user_who_may_create_asset_events_writes_events_and_lineage() -> None:
    async def check() -> None:
        manager = Manager()
        token = {"authorization": "bearer op", "content-type": "application/json"}
        async with mounted(manager) as client:
            assert (await client.post(EVENTS, headers=headers())).status_code == 202
            assert (await client.post(LINEAGE, headers=token, content=json.dumps(RUN))).status_code == 200
            answer = await client.post(f"{LINEAGE}/batch", headers=token, content=json.dumps([RUN, RUN]))
            assert answer.status_code == 204
        [producer] = Producer.opened
        assert [event.type for event in producer.events] == ["t", *["openlineage.run.complete"] * 3]
        [authorization] = {
            (method, details.id, in_loop) for method, details, in_loop in manager.authorizations
        }
        assert authorization == ("POST", None, False)

    run(check)


@pytest.mark.parametrize("path", [EVENTS, LINEAGE, f"{LINEAGE}/batch"])
@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        ([], 401, "authorization: Bearer TOKEN"),
        ([("cookie", "_token=op")], 401, "A cookie does not count"),
        ([("authorization", "Basic b3A6b3A=")], 401, "Bearer TOKEN"),
        ([("authorization", "op")], 401, "Bearer TOKEN"),
        ([("authorization", "Bearer op"), ("authorization", "Bearer op")], 401, "Bearer TOKEN"),
        ([("authorization", "Bearer nobody")], 401, "/auth/token"),
        ([("authorization", "Bearer nobody"), ("cookie", "_token=op")], 401, "/auth/token"),
        ([("authorization", "Bearer ")], 401, "/auth/token"),
        ([("authorization", "Bearer \xff\xfe")], 401, "/auth/token"),
        ([("authorization", "Bearer viewer")], 403, "POST on assets"),
        ([("authorization", "Bearer op"), ("origin", "https://elsewhere")], 403, "web page"),
        ([("authorization", "Bearer op"), ("origin", "null")], 403, "web page"),
    ],
)
def test_a_request_without_a_users_right_writes_nothing(
    path: str, sent: list[tuple[str, str]], status: int, says: str
) -> None:
    async def check() -> None:
        async with mounted() as client:
            raw = [(name.encode(), value.encode("latin-1")) for name, value in sent]
            raw += [(f"ce-{n}".encode(), v.encode()) for n, v in (("specversion", "1.0"), ("id", "1"))]
            raw += [(b"ce-source", b"/s"), (b"ce-type", b"t")]
            answer = await client.post(path, headers=raw, content=b"{}")
        assert answer.status_code == status
        assert says in answer.json()["detail"]
        assert ("www-authenticate" in answer.headers) == (status == 401)
        assert not Producer.opened

    run(check)


@pytest.mark.parametrize("added", [None, b"Bearer op"], ids=["by its cookie", "logged in by Airflow"])
@pytest.mark.parametrize("path", [EVENTS, LINEAGE])
def test_a_page_of_another_site_writes_nothing_with_the_session_of_its_reader(
    path: str, added: bytes | None
) -> None:
    """What a browser sends without asking: cookie, Origin, and no content-type of its own.

    With `simple_auth_manager_all_admins` Airflow adds the header `authorization` to each request.
    """

    async def check() -> None:
        app, server = receiver_app(Users(lambda: manager), lambda: BUS), FastAPI()
        server.mount("/interlock", app)

        async def adding(scope: Any, receive: Any, send: Any) -> None:
            if added is not None:
                scope["headers"].append((b"authorization", added))
            await server(scope, receive, send)

        manager = Manager()
        transport = httpx.ASGITransport(adding)
        client = httpx.AsyncClient(transport=transport, base_url="http://airflow", cookies={"_token": "op"})
        async with client, app.router.lifespan_context(app):
            sent = {"origin": "https://elsewhere"}
            assert (await client.post(path, headers=sent, content=json.dumps(RUN))).status_code == 403
            if added is None:
                assert (await client.post(path, content=json.dumps(RUN))).status_code == 401
        assert not manager.tokens

    run(check)


@pytest.mark.parametrize(
    "error",
    [
        ExpiredSignatureError("a canary"),
        InvalidTokenError("a canary"),
        ValueError("a canary"),
        TypeError("a canary"),
        RecursionError("a canary"),
        OverflowError("a canary"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_airflow_finds_in_a_token_is_no_fault_of_the_receiver(error: Exception) -> None:
    async def check() -> None:
        async with mounted(Manager(error)) as client:
            answer = await client.post(EVENTS, headers=headers())
            assert answer.status_code == 401
            assert "canary" not in answer.text

    run(check)


def test_a_token_that_is_too_long_does_not_reach_airflow() -> None:
    async def check() -> None:
        manager = Manager()
        async with mounted(manager) as client:
            assert (await client.post(EVENTS, headers=headers("x" * 8193))).status_code == 401
        assert manager.tokens == []

    run(check)


def test_an_answer_that_airflow_has_compressed_is_the_same_the_next_time() -> None:
    """Middleware changes the headers of an answer in place, and equal answers are one object."""

    async def check() -> None:
        async with mounted() as client:
            for _ in range(3):
                for token, says in (
                    (None, "A cookie does not count"),
                    ("nobody", "does not accept the token"),
                ):
                    answer = await client.post(EVENTS, headers=headers(token))
                    assert answer.headers["content-encoding"] == "gzip"
                    assert says in answer.json()["detail"]

    run(check)


@pytest.mark.parametrize("type_", ["interlock.airflow.dag_run.succeeded", "org.apache.kafka.record"])
def test_a_user_may_not_write_interlocks_own_types(type_: str) -> None:
    async def check() -> None:
        async with mounted() as client:
            answer = await client.post(EVENTS, headers=headers(type=type_))
            assert answer.status_code == 403
            assert f"a user of Airflow may not write events of type '{type_}'" in answer.json()["detail"]
        assert not written()

    run(check)


@pytest.mark.parametrize(
    ("method", "path", "status", "says"),
    [
        ("POST", "/interlock/", 404, "to /interlock/events"),
        ("POST", "/interlock/event", 404, "There is no '/interlock/event'"),
        ("POST", "/interlock/interlock/events", 404, "to /interlock/events"),
        ("GET", "/interlock/healthz", 404, "to /interlock/events"),
        ("GET", "/interlock/readyz", 404, "to /interlock/events"),
        ("GET", "/interlock/docs", 404, "to /interlock/events"),
        ("GET", "/interlock/openapi.json", 404, "to /interlock/events"),
        ("POST", "/interlock/webhooks/github", 404, "to /interlock/events"),
        ("GET", EVENTS, 405, "with POST"),
        ("OPTIONS", EVENTS, 405, "with POST"),
    ],
)
def test_other_paths_and_methods_are_refused(method: str, path: str, status: int, says: str) -> None:
    async def check() -> None:
        async with mounted() as client:
            answer = await client.request(method, path, headers=headers())
            assert answer.status_code == status
            assert says in answer.json()["detail"]

    run(check)


def test_a_websocket_is_closed_without_an_error() -> None:
    async def check() -> None:
        app = receiver_app(Users(Manager), lambda: BUS)
        sent: list[str] = []

        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message["type"])

        await app({"type": "websocket", "path": EVENTS, "headers": []}, receive, send)  # type: ignore[arg-type]
        assert sent == ["websocket.close"]

    run(check)


def test_the_size_of_a_body_and_of_all_together_is_bounded() -> None:
    async def check() -> None:
        async with mounted() as client:
            large = await client.post(EVENTS, headers=headers(), content=b"x" * (1024 * 1024 + 1))
            assert large.status_code == 413
            assert (await client.post(EVENTS, headers=headers())).status_code == 202
            [producer] = Producer.opened
            producer.may_write.clear()
            body = b"x" * 1024 * 1024
            posts = [client.post(EVENTS, headers=headers(id=str(n)), content=body) for n in range(16)]
            sent = [asyncio.ensure_future(post) for post in posts]
            [first], _ = await asyncio.wait(sent, timeout=20, return_when=asyncio.FIRST_COMPLETED)
            assert first.result().status_code == 429
            producer.may_write.set()
            statuses = [answer.status_code for answer in await asyncio.gather(*sent)]
            assert sorted(statuses) == [202] * 15 + [429]

    run(check)


def test_there_is_no_client_before_the_first_event_and_it_is_closed_at_shutdown() -> None:
    async def check() -> None:
        async with mounted() as client:
            assert (await client.post(EVENTS, headers=headers(None))).status_code == 401
            assert (await client.post(EVENTS, headers=headers(source=""))).status_code == 400
            assert not Producer.opened
            posts = [client.post(EVENTS, headers=headers(id=str(number))) for number in range(5)]
            assert {answer.status_code for answer in await asyncio.gather(*posts)} == {202}
            [producer] = Producer.opened
            assert not producer.is_closed
        assert producer.is_closed
        assert sorted(written()) == ["0", "1", "2", "3", "4"]
        assert (await client_after_shutdown(client)).status_code == 503

    async def client_after_shutdown(client: httpx.AsyncClient) -> httpx.Response:
        async with httpx.AsyncClient(transport=client._transport, base_url="http://airflow") as late:
            return await late.post(EVENTS, headers=headers())

    run(check)


def test_a_connection_that_cannot_be_used_is_read_again_and_stands_once_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found: list[BusConfig | ConfigError] = [
        ConfigError("There is no connection"),
        ConfigError("There is no connection"),
        BusConfig(name="refused", client=BUS.client),
        BUS,
    ]

    def read() -> BusConfig:
        each = found.pop(0)
        if isinstance(each, ConfigError):
            raise each
        return each

    async def check() -> None:
        async with mounted(read=read) as client:
            answers = [await client.post(EVENTS, headers=headers()) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [503, 503, 503, 202, 202]
        assert answers[0].headers["retry-after"]
        assert "connection" not in answers[0].text

    run(check)
    assert len([line for line in caplog.messages if "There is no connection" in line]) == 1
    assert "the client refuses a property" in caplog.text
    assert len(Producer.opened) == 1


def test_a_shutdown_with_an_unusable_connection_ends() -> None:
    def read() -> BusConfig:
        raise ConfigError("There is no connection")

    async def check() -> None:
        async with mounted(read=read) as client:
            assert (await client.post(EVENTS, headers=headers())).status_code == 503

    run(check)


def test_requests_and_events_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[tuple[str, int, dict[str, str]]] = []
    sink = SimpleNamespace(incr=lambda name, count, tags: counted.append((name, count, tags)))
    monkeypatch.setattr("interlock.triggers.stats.airflow_stats", lambda: sink)
    monkeypatch.setenv("AIRFLOW__INTERLOCK__DEPLOYMENT", "finance")

    async def check() -> None:
        async with mounted() as client:
            await client.post(EVENTS, headers=headers())
            await client.post(EVENTS, headers=headers(None))

    run(check)
    tags = {"bus": "interlock", "deployment": "finance", "path": "/events"}
    assert counted == [
        ("interlock.receiver.requests", 1, {**tags, "status": "202"}),
        ("interlock.receiver.events", 1, tags),
        ("interlock.receiver.requests", 1, {**tags, "status": "401"}),
        ("interlock.receiver.events", 0, tags),
    ]


def test_the_connection_is_that_of_the_setting_and_its_faults_name_the_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", json.dumps({"conn_type": "kafka", "extra": dict(BUS.client)}))
    monkeypatch.setenv("AIRFLOW_CONN_WEB", json.dumps({"conn_type": "http"}))
    assert bus_of("events", RECEIVER).client == BUS.client
    with pytest.raises(ConfigError, match="has type 'http'"):
        bus_of("web", RECEIVER)
    for error, says in (
        (AirflowNotFoundException("x"), r"no Airflow connection 'events', which \[interlock\] receiver_in_"),
        (OSError("the vault is sealed"), "receiver_in_api_server names, cannot be read: the vault is sealed"),
    ):
        monkeypatch.setattr(
            "airflow.models.connection.Connection.get_connection_from_secrets",
            lambda _, error=error: (_ for _ in ()).throw(error),
        )
        with pytest.raises(ConfigError, match=says):
            bus_of("events", RECEIVER)


def test_the_plugin_mounts_the_app_only_if_it_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_valid_plugin(entry.InterlockPlugin)
    monkeypatch.setenv("AIRFLOW__INTERLOCK__PAGE_CONNECTIONS", "")
    assert entry.InterlockPlugin.fastapi_apps == []
    monkeypatch.setenv("AIRFLOW__INTERLOCK__RECEIVER_IN_API_SERVER", " ")
    assert entry.InterlockPlugin.fastapi_apps == []
    monkeypatch.setenv("AIRFLOW__INTERLOCK__RECEIVER_IN_API_SERVER", " events ")
    [mount] = entry.InterlockPlugin.fastapi_apps
    assert mount["url_prefix"] == "/interlock"
    assert isinstance(mount["app"], FastAPI)  # else the API server would not run its lifespan
    assert entry.InterlockPlugin.fastapi_apps[0]["app"] is mount["app"]
    fastapi_apps.cache_clear()
