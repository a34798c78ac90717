"""An API server of Airflow alone, with the page of a bus on which tests register what waits."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.plugin.broker import LocalBroker

from local.airflow import MIGRATED, LocalAirflow, free_port
from tests.integration.engine.conftest import Bench
from tests.kit.page_routes import ROLES

ROOM: Final = "/interlock-ui"


class Page:
    """The routes, as the users of Airflow ask them. below: the path of Airflow's base_url."""

    def __init__(
        self, airflow: LocalAirflow, bench: Bench, eventually: Callable[..., Any], below: str = ""
    ) -> None:
        self.airflow, self.bench, self._eventually = airflow, bench, eventually
        self.url = airflow.url + below
        self.client = httpx.Client(base_url=self.url, timeout=60, trust_env=False)
        passwords = json.loads((airflow.home / "passwords.json").read_text())
        self.tokens = {name: self._token(name, passwords[name]) for name in ROLES}

    def _token(self, name: str, password: str) -> str:
        answer = self.client.post("/auth/token", json={"username": name, "password": password})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["access_token"])

    def ask(
        self, method: str, path: str, sent: dict[str, Any], user: str | None, **headers: str
    ) -> httpx.Response:
        """One answer of a route, once the read model has been read."""
        if user is not None:
            headers["authorization"] = f"Bearer {self.tokens[user]}"
        given = {"params": sent} if method == "GET" else {"json": sent}

        def answer() -> httpx.Response | None:
            found = self.client.request(method, f"{ROOM}{path}", headers=headers, **given)  # type: ignore[arg-type]
            return None if found.status_code == 202 else found

        found: httpx.Response = self._eventually(f"{path} is read", answer, 60.0)
        return found

    def get(self, path: str, user: str = "admin", **sent: Any) -> Any:
        found = self.ask("GET", path, sent, user)
        assert found.status_code == 200, found.text
        return found.json()

    def post(self, path: str, user: str = "admin", **sent: Any) -> httpx.Response:
        return self.ask("POST", path, sent, user)

    def until(self, what: str, fact: Callable[[], Any]) -> Any:
        return self._eventually(what, fact, 60.0)


@contextmanager
def two_partitions(bus: str, broker: LocalBroker, eventually: Callable[..., Any]) -> Iterator[Bench]:
    """A new bus."""
    config = BusConfig(name=bus, client={"bootstrap.servers": broker.bootstrap_servers})
    create(config, partitions=2)
    made = Bench(config, 2, eventually)
    with made.stack:
        yield made


@contextmanager
def page_server(
    home: Path,
    bench: Bench,
    eventually: Callable[..., Any],
    settings: Mapping[tuple[str, str], str],
    below: str = "",
    prepare: Callable[[LocalAirflow], None] = lambda _: None,
) -> Iterator[Page]:
    """settings: beside the bus and a user of each role. below: the path of Airflow's base_url.

    prepare: called before the server is started.
    """
    connection = {"conn_type": "kafka", "extra": json.dumps(dict(bench.config.client))}
    down = {**connection, "extra": json.dumps({"bootstrap.servers": "127.0.0.1:1"})}
    port = free_port()
    airflow = LocalAirflow(
        home,
        home / "dags",
        connections={"kafka_default": connection, "kafka_down": down},
        settings={
            ("interlock", "bus"): bench.config.name,
            ("core", "simple_auth_manager_users"): ",".join(f"{name}:{name}" for name in ROLES),
            ("api", "base_url"): f"http://127.0.0.1:{port}{below}",
            **settings,
        },
        port=port,
        migrated=MIGRATED,
    )
    try:
        airflow.prepare()
        prepare(airflow)
        airflow.processes.start(
            "api-server", [sys.executable, "-m", "airflow", "api-server", "--workers", "1"]
        )

        def answers() -> bool:
            airflow.processes.check()
            return airflow.api.health() is not None

        eventually("the API server answers", answers, 180.0)
        made = Page(airflow, bench, eventually, below)
        try:
            yield made
        finally:
            made.client.close()
    finally:
        airflow.stop()
