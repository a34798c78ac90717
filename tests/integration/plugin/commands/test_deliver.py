"""`airflow interlock deliver`: what deliver_dag registers reaches an HTTP service, also after a refusal."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import TaskDeferred
from interlock import event
from interlock.engine.waiting.dispatching import Durable
from interlock.engine.waiting.notices import NoticeBoard
from interlock.engine.waiting.waits import Waits
from interlock.operators import deliver_dag
from interlock.plugin.broker.ports import free_ports

from tests.integration.engine.conftest import Bench, in_thread
from tests.integration.plugin.commands.conftest import Ran, Start
from tests.kit.asking import status
from tests.kit.sinks import Behaviour, Sink, answer
from tests.kit.state_store import StateStore, task_instance

PASSWORD = "canary-77"
NAME = "airflow/deliver/ship"


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as made:
        yield made


@pytest.fixture
def deliver(start_command: Start, sink: Sink) -> Start:
    """Starts the command; its output is in deliver.log."""
    crm = {"conn_type": "http", "host": sink.url, "login": "shop", "password": PASSWORD}

    def run(*arguments: str, networks: str = "127.0.0.0/8", **environment: str) -> subprocess.Popen[str]:
        own = {"AIRFLOW_CONN_CRM": json.dumps(crm), "AIRFLOW__INTERLOCK__DELIVERY_NETWORKS": networks}
        return start_command("deliver", *arguments, **{**own, **environment})

    return run


def durable_of(bench: Bench, monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> Durable:
    """What the trigger of a deliver_dag registers."""
    found = partial(Connection, conn_type="kafka", extra=json.dumps(dict(bench.config.client)))
    monkeypatch.setattr(BaseHook, "get_connection", lambda conn_id: found(conn_id=conn_id))
    dag = deliver_dag(
        "ship",
        condition=event("order", by="subject"),
        bus=bench.config.name,
        **{"conn_id": "crm", "path": "/orders", "retry": {"delay_s": 0.05}, **arguments},
    )
    run = SimpleNamespace(start_date=datetime(2026, 1, 1, tzinfo=UTC))
    context: Any = {"ti": task_instance(), "dag_run": run, "task_state_store": StateStore()}
    with pytest.raises(TaskDeferred) as raised:
        dag.task_dict["deliver"].execute(context)
    return Durable(**json.loads(json.dumps(raised.value.trigger.serialize()[1]["durable"])))


@contextmanager
def registering(bench: Bench, durable: Durable, eventually: Callable[..., Any]) -> Iterator[None]:
    """Registers the sink and the subscription, as the trigger of a deliver_dag does."""
    waits = Waits(bench.config, NoticeBoard())
    stream = waits.dispatching.open(durable, lambda _: None)
    with in_thread("waits", waits.run):
        eventually("it is registered", lambda: stream.registered)
        yield


def held(release: threading.Event) -> Behaviour:
    """Answers 202 when the test releases it."""

    async def behave(writer: asyncio.StreamWriter) -> bool:
        await asyncio.to_thread(release.wait, 60)
        return await answer(202)(writer)

    return behave


def states(bench: Bench) -> dict[str, str]:
    """{firing id: its state now}."""
    return {r.json()["firing"]["id"]: r.json()["state"] for r in bench.records("action") if r.json()}


def test_firings_reach_the_sink_a_refused_one_is_redriven_and_sigterm_drains(
    bench: Bench,
    sink: Sink,
    deliver: Start,
    interlock: Callable[..., Ran],
    eventually: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    durable = durable_of(bench, monkeypatch)
    [port] = free_ports(1)
    process = deliver("--probe-port", str(port))
    with registering(bench, durable, eventually), bench.engine():
        eventually("it is ready", lambda: status(port, "/readyz") == 200)
        assert status(port, "/healthz") == 200
        bench.emit("order", id="o1", subject="s1", data={"rows": 7})
        eventually("it is delivered", lambda: sink.received)
        [request] = sink.received
        assert (request.method, request.path, json.loads(request.body)) == ("POST", "/orders", {"rows": 7})
        assert (request.attributes["id"], request.attributes["type"]) == ("o1", "order")
        assert request.headers["authorization"].startswith("Basic ")
        eventually("it is acknowledged", lambda: list(states(bench).values()) == ["acked"])

        [row] = interlock("subscriptions", "list").rows()
        assert (row["subscription"], row["delivers_to"]) == (NAME, "connection crm, path /orders")
        shown = json.loads(interlock("subscriptions", "show", "ship").out)
        assert (shown["sink"]["connection"], shown["open_firings"]) == ("crm", 0)
        health = json.loads(interlock("health").out)
        [group] = health["deliveries"]
        assert (group["deployment"], group["sinks"], group["deliverers"]) == ("airflow", 1, 1)

        sink.answer(answer(400, body=f"no {PASSWORD}".encode()))
        bench.emit("order", id="o2", subject="s2")
        [dead_letter] = eventually("it is a dead letter", lambda: interlock("dead-letters", "list").rows())
        assert (dead_letter["stage"], dead_letter["subscription"]) == ("delivery", NAME)
        assert dead_letter["sink"] == "connection crm, path /orders"
        [whole] = interlock("dead-letters", "show", dead_letter["place"]).rows()
        assert whole["headers"]["interlock_error_data"] == "no ***"
        assert "HTTP 400" in dead_letter["reason"]
        sink.answer(answer(202))
        interlock("dead-letters", "redrive", dead_letter["place"], "--yes").rows()
        eventually("it is delivered again", lambda: len(sink.received) >= 3)
        assert [each.attributes["id"] for each in sink.received] == ["o1", "o2", "o2"]
        first, again = (int(each.attributes["interlocksequence"]) for each in sink.received[1:])
        assert first < again
        eventually("all are acknowledged", lambda: set(states(bench).values()) == {"acked"})

        release = threading.Event()
        sink.answer(held(release))
        bench.emit("order", id="o3", subject="s3")
        eventually("it is in flight", lambda: len(sink.received) == 4)
        explained = json.loads(interlock("explain", NAME).out)
        assert explained["delivers_to"] == "connection crm, path /orders"
        [note] = [note for note in explained["notes"] if "not delivered" in note]
        assert "not delivered yet: 1, the oldest of" in note
        shown = json.loads(interlock("subscriptions", "show", "ship").out)
        assert (shown["open_firings"], states(bench)[shown["oldest_firing"]]) == (1, "fired")
        [row] = interlock("subscriptions", "list", "--pending").rows()
        assert (row["open_firings"], row["oldest_firing"]) == (1, shown["oldest_firing"])
        assert json.loads(interlock("health").out)["ok"]
        late = json.loads(interlock("health", "--late-after", "1ms").out)
        assert (late["ok"], late["sinks"][0]["oldest_firing"]) == (False, shown["oldest_firing"])
        [problem] = late["problems"]
        assert late["alerts"] == {problem: "InterlockDeliveriesLate"}
        assert f"skip {NAME} {shown['oldest_firing']}" in problem
        process.send_signal(signal.SIGTERM)
        log = tmp_path / "deliver.log"
        eventually("it drains", lambda: "Deliveries in flight have 15 s to end" in log.read_text())
        release.set()
        assert process.wait(30) == 0
    assert list(states(bench).values()) == ["acked"] * 3
    text = log.read_text()
    assert "has left the group" in text
    assert f"Sink {NAME}: connection crm, path '/orders'" in text
    assert "becomes a dead letter: the sink refused it: HTTP 400" in text
    written = b"".join(
        r.value or b"" for kind in ("action", "dead-letter", "subscription") for r in bench.records(kind)
    )
    assert PASSWORD not in text + written.decode("utf-8", "replace")


def test_the_doctor_looks_at_the_connections_of_sinks_and_sends_nothing(
    bench: Bench,
    sink: Sink,
    interlock: Callable[..., Ran],
    eventually: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with registering(bench, durable_of(bench, monkeypatch), eventually):
        missing = interlock("doctor", "--role", "deliver")
        crm = {"conn_type": "http", "host": sink.url, "login": "shop", "password": PASSWORD}
        monkeypatch.setenv("AIRFLOW_CONN_CRM", json.dumps(crm))
        refused = interlock("doctor", "--role", "deliver")
        monkeypatch.setenv("AIRFLOW__INTERLOCK__DELIVERY_NETWORKS", "127.0.0.0/8")
        well = interlock("doctor", "--role", "deliver")
    wrong = [
        [row["found"] for row in json.loads(ran.out) if row["state"] == "wrong"] for ran in (missing, refused)
    ]
    assert [ran.code for ran in (missing, refused, well)] == [1, 1, 0]
    assert [len(each) for each in wrong] == [1, 1]
    assert wrong[0][0].startswith(f"{NAME}: This process can read no connection 'crm'")
    assert wrong[1][0].startswith(f"{NAME}: Connection 'crm': host '127.0.0.1': 127.0.0.1 is not public")
    assert [row["found"] for row in well.rows() if row["check"] == "sinks"] == [
        "Deployment 'airflow' has 1 sink; connections: crm. No request was sent."
    ]
    assert sink.received == []
    assert PASSWORD not in missing.out + refused.out + well.out


@pytest.mark.long
def test_a_sink_in_a_network_that_no_setting_allows_is_paused_and_the_log_says_why(
    bench: Bench,
    sink: Sink,
    deliver: Start,
    eventually: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    deliver(networks="")
    with registering(bench, durable_of(bench, monkeypatch), eventually), bench.engine():
        bench.emit("order", id="o1", subject="s1")
        log = tmp_path / "deliver.log"
        eventually("it is paused", lambda: f"Sink {NAME} is paused" in log.read_text())
    assert "127.0.0.1 is not public" in log.read_text()
    assert (sink.received, list(states(bench).values())) == ([], ["fired"])
    assert PASSWORD not in log.read_text()


BACKEND = """
from pathlib import Path
from threading import Event
from airflow.secrets import BaseSecretsBackend

class Hanging(BaseSecretsBackend):
    def get_connection(self, conn_id, **_):
        if conn_id == "hangs":
            (Path(__file__).parent / "asked").touch()
            Event().wait()
"""


@pytest.mark.long
def test_it_ends_on_sigterm_although_the_secrets_backend_hangs(
    bench: Bench,
    deliver: Start,
    eventually: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "hanging_backend.py").write_text(BACKEND)
    process = deliver(
        "--drain", "1", PYTHONPATH=str(tmp_path), AIRFLOW__SECRETS__BACKEND="hanging_backend.Hanging"
    )
    durable = durable_of(bench, monkeypatch, conn_id="hangs")
    with registering(bench, durable, eventually), bench.engine():
        bench.emit("order", id="o1", subject="s1")
        eventually("its connection is looked up", (tmp_path / "asked").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert "has left the group" in (tmp_path / "deliver.log").read_text()
    assert list(states(bench).values()) == ["fired"]


@pytest.mark.long
def test_without_a_process_that_delivers_health_says_so_and_a_removed_sink_is_named(
    bench: Bench,
    interlock: Callable[..., Ran],
    eventually: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with registering(bench, durable_of(bench, monkeypatch), eventually), bench.engine():
        answered = interlock("health")
        assert answered.code == 1
        nobody = "No process delivers the firings of deployment 'airflow', which has 1 sink"
        assert nobody in answered.err
        explained = json.loads(interlock("explain", NAME).out)
        assert any(note.startswith(nobody) for note in explained["notes"])
        bench.emit("order", id="o1", subject="s1")
        eventually("it has fired", lambda: list(states(bench).values()) == ["fired"])
        interlock("subscriptions", "cancel", "ship", "--yes").rows()
        [problem] = json.loads(interlock("health").out)["problems"]
        assert problem.startswith(nobody)
        assert "were cancelled, but firings wait, the oldest of " in problem
    listed = interlock("subscriptions", "list")
    assert (listed.rows(), f"kept for open firings: {NAME}" in listed.err) == ([], True)
    assert interlock("subscriptions", "cancel", NAME, "--yes").code == 1
    interlock("subscriptions", "cancel", NAME, "--with-sink", "--yes").rows()
    assert "Sinks without" not in interlock("subscriptions", "list").err
