"""The receiver in a real API server of Airflow, with tokens of its simple auth manager."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create

from local.airflow import MIGRATED, LocalAirflow
from local.topics import read_all

pytestmark = pytest.mark.long
TYPE = "com.shop.orders.done"


def part(form: str) -> str:
    return base64.urlsafe_b64encode(form.encode()).rstrip(b"=").decode()


HOSTILE = [
    "x", "a.b.c", "..", ".", f"{part('{}')}.{part('{}')}.", "\xff\xfe",
    f"{part('[' * 5000)}.{part('{}')}.x",
    f"{part(json.dumps({'alg': 'none'}))}.{part(json.dumps({'sub': 'admin', 'role': 'admin'}))}.",
    f"{part(json.dumps({'alg': 'HS512', 'kid': ['x']}))}.{part(json.dumps({'sub': 'admin'}))}.{part('x')}",
    f"{part(json.dumps({'alg': 'HS512', 'crit': {}, 'b64': False}))}.{part('[' * 3000)}.{part('x')}",
    "x" * 9000,
]  # fmt: skip


def written(config: BusConfig) -> dict[str | None, str | None]:
    """The types of the events in the topic, by id."""
    records = read_all(config.bootstrap_servers, config.topic("event"))
    return {record.header("ce_id"): record.header("ce_type") for record in records}


@pytest.fixture
def config(bootstrap_servers: str, unique_name: Callable[[str], str]) -> BusConfig:
    found = BusConfig(name=unique_name("bus"), client={"bootstrap.servers": bootstrap_servers})
    create(found, partitions=2)
    return found


@pytest.fixture
def airflow(config: BusConfig, tmp_path: Path) -> Iterator[LocalAirflow]:
    """Configured, but not started."""
    home = tmp_path / "home"
    made = LocalAirflow(
        home,
        home / "dags",
        settings={
            ("interlock", "bus"): config.name,
            ("interlock", "receiver_in_api_server"): "events",
            ("core", "simple_auth_manager_users"): "admin:admin,looker:viewer",
        },
        migrated=MIGRATED,
    )
    made.prepare()
    yield made
    made.stop()


def serving(airflow: LocalAirflow, eventually: Callable[..., Any]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "airflow", "api-server", "--workers", "2"]
    process = airflow.processes.start("api-server", command)

    def answers() -> bool:
        airflow.processes.check()
        return airflow.api.health() is not None

    eventually("the API server answers", answers, 180.0)
    return process


def test_users_write_events_through_airflows_api_server(
    airflow: LocalAirflow, config: BusConfig, eventually: Callable[..., Any]
) -> None:
    process = serving(airflow, eventually)
    log = airflow.processes.log_path("api-server")
    client = httpx.Client(base_url=airflow.url, timeout=60, trust_env=False)
    passwords = json.loads((airflow.home / "passwords.json").read_text())

    def token_of(user: str) -> str:
        answer = client.post("/auth/token", json={"username": user, "password": passwords[user]})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["access_token"])

    def post(id_: str, token: str | None, type_: str = TYPE, **more: Any) -> httpx.Response:
        sent = {"ce-specversion": "1.0", "ce-id": id_, "ce-source": "/shop", "ce-type": type_}
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        raw = [(name.encode(), value.encode("latin-1")) for name, value in sent.items()]
        return client.post("/interlock/events", headers=raw, content=b"{}", **more)

    admin, looker = token_of("admin"), token_of("looker")
    # Both of its processes start without the connection, and read it when it exists.
    assert [post("early", admin).status_code for _ in range(8)] == [503] * 8
    assert (
        "There is no Airflow connection 'events', which [interlock] receiver_in_api_server" in log.read_text()
    )
    connection = {"connection_id": "events", "conn_type": "kafka", "extra": json.dumps(dict(config.client))}
    added = client.post("/api/v2/connections", json=connection, headers={"authorization": f"Bearer {admin}"})
    assert added.status_code == 201, added.text

    assert {post(f"{number}", admin).status_code for number in range(8)} == {202}
    batch = [
        {"specversion": "1.0", "id": f"batch-{n}", "source": "/shop", "type": TYPE, "data": n}
        for n in range(50)
    ]
    sent = {"content-type": "application/cloudevents-batch+json", "authorization": f"Bearer {admin}"}
    assert client.post("/interlock/events", headers=sent, content=json.dumps(batch)).status_code == 202
    run = {
        "eventType": "COMPLETE", "eventTime": "2026-11-20T06:00:00Z", "producer": "https://p",
        "schemaURL": "https://s", "run": {"runId": "01890c7e-7a3b-7000-8000-000000000000"},
        "job": {"namespace": "shop", "name": "load"},
    }  # fmt: skip
    lineage = client.post("/interlock/api/v1/lineage", json=run, headers={"authorization": f"Bearer {admin}"})
    assert lineage.status_code == 200
    found = written(config)
    assert {f"{number}" for number in range(8)} | {f"batch-{number}" for number in range(50)} <= found.keys()
    assert "openlineage.run.complete" in found.values()

    # Who may not write.
    assert post("no", None).status_code == 401
    assert post("no", looker).status_code == 403
    assert post("no", admin, "interlock.airflow.dag_run.succeeded").status_code == 403
    assert {post("no", hostile).status_code for hostile in HOSTILE} == {401}
    page = {"cookie": f"_token={admin}", "origin": "https://elsewhere", "content-type": "text/plain"}
    assert client.post("/interlock/api/v1/lineage", headers=page, json=run).status_code == 403
    page.pop("origin")
    assert client.post("/interlock/api/v1/lineage", headers=page, json=run).status_code == 401
    assert client.get("/interlock/healthz").status_code == 404
    revoked = token_of("admin")
    assert post("before", revoked).status_code == 202
    client.get("/api/v2/auth/logout", headers={"cookie": f"_token={revoked}"})  # 3.3.0 reads no other place
    client.cookies.clear()
    assert post("no", revoked).status_code == 401
    assert "no" not in written(config)

    # SIGTERM under load: what was accepted is in the topic.
    accepted: list[str] = []
    going = threading.Event()

    def load() -> None:
        for number in range(100_000):
            try:
                answer = post(f"load-{number}", admin)
            except httpx.TransportError:
                return  # it has ended
            if answer.status_code == 202:
                accepted.append(f"load-{number}")
            if len(accepted) >= 30:
                going.set()

    thread = threading.Thread(target=load)
    thread.start()
    assert going.wait(60)
    process.terminate()
    process.wait(60)
    thread.join()
    client.close()
    assert set(accepted) <= written(config).keys()
    text = log.read_text()
    assert not [token for token in (admin, looker, revoked) if token in text]
    assert "Traceback" not in text
