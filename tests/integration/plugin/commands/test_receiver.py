"""`airflow interlock receiver`: a process of its own, asked by an HTTP client."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.plugin.broker import LocalBroker

from local.airflow import free_port
from local.topics import read_all
from tests.kit.certificates import Authority

TOKEN = "of-the-test"
ROUNDS = 40
SLOW_START = """
import sys, time
if "--multiprocessing-fork" in sys.orig_argv:
    time.sleep(16)
"""
FILE = f"""
[[credential]]
name = "test"
token_sha256 = "{hashlib.sha256(TOKEN.encode()).hexdigest()}"
types = ["t", "load", "openlineage.*"]
"""


WEBHOOKS = """
[[webhook]]
name = "github"
preset = "github"
secret = "github_webhook"
"""


class Process:
    """A receiver that answers, and its log."""

    def __init__(self, popen: subprocess.Popen[str], url: str, log: Path) -> None:
        self.popen, self.url, self._log = popen, url, log

    @property
    def log(self) -> str:
        return self._log.read_text()

    def raw(self, request: bytes) -> bytes:
        """What the server sends back until it closes."""
        host, port = self.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(request)
            found = b""
            while part := connection.recv(65536):
                found += part
        return found


Start = Callable[..., Process]


@pytest.fixture
def start(bench: Any, tmp_path: Path, eventually: Any) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []
    (tmp_path / "credentials.toml").write_text(FILE)

    def run(
        *options: str,
        config: BusConfig | None = None,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        **environment: str,
    ) -> Process:
        config, port = config or bench.config, port or free_port()
        command = [str(Path(sys.executable).parent / "airflow"), "interlock", "receiver", "--port", str(port)]
        command += ["--conn-id", "kafka_cli", "--bus", config.name]
        command += ["--credentials", str(tmp_path / "credentials.toml"), *options]
        connection = json.dumps({"conn_type": "kafka", "extra": dict(config.client)})
        with (tmp_path / "receiver.log").open("a") as out:
            popen = subprocess.Popen(
                command,
                env={**os.environ, "AIRFLOW_CONN_KAFKA_CLI": connection, **environment},
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
            )
        started.append(popen)
        scheme = "http" if tls is None else "https"
        process = Process(popen, f"{scheme}://127.0.0.1:{port}", tmp_path / "receiver.log")

        def ready() -> bool:
            assert popen.poll() is None, process.log
            try:
                return httpx.get(f"{process.url}/readyz", verify=tls or True).status_code == 200
            except httpx.TransportError:
                return False

        eventually("it is ready", ready)
        return process

    yield run
    for popen in started:
        popen.kill()
        popen.wait()


def headers(id_: str, kind: str = "t") -> dict[str, str]:
    return {
        "ce-specversion": "1.0", "ce-id": id_, "ce-source": "/s", "ce-type": kind,
        "authorization": f"Bearer {TOKEN}",
    }  # fmt: skip


def written(config: BusConfig) -> list[str]:
    """The ids of the events in the topic."""
    records = read_all(config.bootstrap_servers, config.topic("event"))
    return [record.header("ce_id") or "" for record in records]


def test_events_are_in_the_topic_when_they_are_accepted_and_each_request_is_answered_at_sigterm(
    bench: Any, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "webhooks.toml").write_text(WEBHOOKS)
    secret = {"conn_type": "generic", "password": "of-the-webhook"}
    monkeypatch.setenv("AIRFLOW_CONN_GITHUB_WEBHOOK", json.dumps(secret))
    process = start("--workers", "2", "--webhooks", str(tmp_path / "webhooks.toml"))
    post = f"{process.url}/events"
    form = {"specversion": "1.0", "source": "/s", "type": "t", "data": {"a": 1}}
    batch = json.dumps([{**form, "id": f"batch-{number}"} for number in range(100)])
    kind = {"content-type": "application/cloudevents-batch+json", "authorization": f"Bearer {TOKEN}"}
    assert httpx.post(post, headers=headers("1"), content=b"{}").status_code == 202
    assert httpx.post(post, headers=kind, content=batch).status_code == 202
    assert sorted(written(bench.config)) == sorted(["1", *(f"batch-{number}" for number in range(100))])
    # Without a token, with a wrong one, and what the credential may not write.
    assert httpx.post(post, headers={**headers("2"), "authorization": ""}).status_code == 401
    assert httpx.post(post, headers={**headers("2"), "authorization": "Bearer x"}).status_code == 401
    assert httpx.post(post, headers=headers("2", "other")).status_code == 403
    # A webhook needs no token, but its signature.
    push = json.dumps({"ref": "refs/heads/main"}).encode()
    signature = hmac.new(b"of-the-webhook", push, "sha256").hexdigest()
    hook = f"{process.url}/webhooks/github"
    kinds = {"content-type": "application/json", "x-github-event": "push", "x-github-delivery": "push-1"}
    valid = {**kinds, "x-hub-signature-256": f"sha256={signature}"}
    assert httpx.post(hook, headers=valid, content=push).status_code == 200
    assert httpx.post(hook, headers=valid, content=push + b" ").status_code == 401
    assert httpx.post(hook, headers=kinds, content=push).status_code == 401
    assert httpx.post(f"{hook}/other", headers=valid, content=push).status_code == 404
    assert "push-1" in written(bench.config)

    accepted: list[str] = []
    other: list[object] = []
    going = threading.Event()

    def load(name: int) -> None:
        with httpx.Client() as client:
            for number in range(100_000):
                try:
                    answer = client.post(post, headers=headers(f"{name}-{number}", "load"), content=b"{}")
                except httpx.ConnectError:
                    return  # it has ended
                except httpx.TransportError as error:  # an idle connection that was closed meanwhile
                    other.append(error)
                    return
                (accepted if answer.status_code == 202 else other).append(f"{name}-{number}")
                if len(accepted) >= 50:
                    going.set()

    threads = [threading.Thread(target=load, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    assert going.wait(60)
    process.popen.send_signal(signal.SIGTERM)
    process.popen.wait(30)
    for thread in threads:
        thread.join()
    assert set(accepted) <= set(written(bench.config))
    assert len(accepted) >= 50
    assert TOKEN not in process.log
    assert "of-the-webhook" not in process.log


def test_what_is_no_request_is_refused_and_the_receiver_continues(bench: Any, start: Start) -> None:
    process = start()
    line = b"POST /events HTTP/1.1\r\nhost: x\r\n"
    assert process.raw(line + b"a: " + b"b" * 70_000 + b"\r\n\r\n").startswith(b"HTTP/1.1 431")
    assert process.raw(line + b"a: " + b"b" * 300_000).startswith(b"HTTP/1.1 431")  # and never ends
    assert process.raw(line + b"a: b\r\n" * 201 + b"\r\n").startswith(b"HTTP/1.1 431")
    assert process.raw(b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
    closing = line + b"authorization: Bearer " + TOKEN.encode() + b"\r\nconnection: close\r\n"
    assert process.raw(closing + b"content-length: 1048577\r\n\r\n").startswith(b"HTTP/1.1 413")
    assert b"application/problem+json" in process.raw(closing + b"content-length: 2\r\n\r\n{}")
    assert httpx.post(f"{process.url}/events", headers=headers("1")).status_code == 202
    assert written(bench.config) == ["1"]


@pytest.mark.long
def test_worker_processes_that_start_slowly_are_waited_for(start: Start, tmp_path: Path) -> None:
    """uvicorn kills a worker that has not answered in time, by default 5 s: on a busy machine each one."""
    (tmp_path / "sitecustomize.py").write_text(SLOW_START)
    process = start("--workers", "2", PYTHONPATH=str(tmp_path))
    assert httpx.post(f"{process.url}/events", headers=headers("1")).status_code == 202


@pytest.mark.long
def test_a_client_certificate_may_write_and_the_topic_decides_how_large_an_event_may_be(
    bench: Any, start: Start, tmp_path: Path
) -> None:
    """The credentials come from a connection; the topic takes less than an event may have elsewhere."""
    authority = Authority(tmp_path / "tls")
    server = authority.issue("server", "127.0.0.1")
    credential = {"name": "shop", "client_cert": "CN=shop", "types": ["t"]}
    tls = ssl.create_default_context(cafile=str(authority.file))
    process = start(
        "--credentials", "conn:senders", "--tls-client-ca", str(authority.file),
        "--tls-cert", str(server.certificate), "--tls-key", str(server.key),
        "--allow-origin", "a.example.com",
        tls=tls,
        AIRFLOW_CONN_SENDERS=json.dumps({"conn_type": "generic", "extra": {"credential": [credential]}}),
    )  # fmt: skip
    post = f"{process.url}/events"
    assert httpx.post(post, headers=headers("1"), verify=tls).status_code == 401  # no certificate, no token
    handshake = httpx.options(post, headers={"webhook-request-origin": "a.example.com"}, verify=tls)
    assert handshake.headers["webhook-allowed-origin"] == "a.example.com"
    mine = authority.issue("shop")
    tls.load_cert_chain(mine.certificate, mine.key)
    admin = AdminClient(bench.config.client)
    entry = ConfigEntry("max.message.bytes", "3000", incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ResourceType.TOPIC, bench.config.topic("event"), incremental_configs=[entry])
    admin.incremental_alter_configs([topic])[topic].result(30)
    small = {name: value for name, value in headers("").items() if name != "authorization"}
    with httpx.Client(verify=tls, timeout=60) as client, ThreadPoolExecutor(8) as pool:
        large = client.post(post, headers={**small, "ce-id": "large"}, content=b"x" * 5000)
        assert large.status_code == 413
        assert bench.config.topic("event") in large.json()["detail"]
        # Together in one batch of the client they are larger than the topic takes.
        batch = [
            {"specversion": "1.0", "source": "/s", "type": "t", "id": f"b{n}", "data": "x" * 500}
            for n in range(50)
        ]
        kind = {"content-type": "application/cloudevents-batch+json"}
        answers = pool.map(lambda _: client.post(post, headers=kind, content=json.dumps(batch)), range(8))
        assert {answer.status_code for answer in answers} == {202}
    assert {f"b{number}" for number in range(50)} == set(written(bench.config))


@pytest.mark.long
def test_no_accepted_event_is_missing_after_forty_ends_under_load_and_a_pause_of_the_broker(
    start: Start, tmp_path: Path, say: Any, unique_name: Any, eventually: Any
) -> None:
    """Half of the rounds end with SIGKILL, half with SIGTERM; in one the broker stands still for 10 s."""
    with LocalBroker(tmp_path / "broker", report=say) as broker:
        config = BusConfig(name=unique_name("bus"), client={"bootstrap.servers": broker.bootstrap_servers})
        create(config, partitions=2)
        port, accepted, refused = free_port(), [], []

        def load(name: str, over: threading.Event) -> None:
            with httpx.Client(timeout=60) as client:
                for number in range(100_000):
                    id_ = f"{name}-{number}"
                    try:
                        url = f"http://127.0.0.1:{port}/events"
                        answer = client.post(url, headers=headers(id_, "load"), content=b"{}")
                    except httpx.TransportError:
                        if over.is_set():
                            return
                        continue
                    (accepted if answer.status_code == 202 else refused).append((id_, answer.status_code))

        for number in range(ROUNDS):
            process, over, before = start(config=config, port=port), threading.Event(), len(accepted)
            threads = [threading.Thread(target=load, args=(f"{number}-{n}", over)) for n in range(8)]
            for thread in threads:
                thread.start()
            eventually("events are accepted", lambda before=before: len(accepted) > before + 200)
            if number == 4:
                assert broker.pid is not None
                os.kill(broker.pid, signal.SIGSTOP)
                over.wait(10)  # the fault itself
                os.kill(broker.pid, signal.SIGCONT)
                there = len(accepted)
                eventually("it continues", lambda there=there: len(accepted) > there + 200)
            over.set()
            process.popen.send_signal(signal.SIGKILL if number % 2 else signal.SIGTERM)
            process.popen.wait(60)
            for thread in threads:
                thread.join()
        assert {status for _, status in refused} <= {503}
        assert {id_ for id_, _ in accepted} <= set(written(config))
