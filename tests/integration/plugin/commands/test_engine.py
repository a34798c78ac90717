"""`airflow interlock engine`: a process of its own, as a service manager runs it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from interlock import event
from interlock.engine.admin.health import examine
from interlock.plugin.broker.ports import free_ports

from tests.integration.plugin.commands.conftest import Start
from tests.kit.asking import status


@pytest.fixture
def start(start_command: Start) -> Start:
    """Starts the command with these client properties in its connection; its output is in engine.log."""
    return lambda client, *arguments: start_command("engine", *arguments, client=client)


def test_an_engine_alone_fires_a_wait_and_leaves_the_group_on_sigterm(
    bench: Any, start: Start, tmp_path: Path, eventually: Any
) -> None:
    [port] = free_ports(1)
    process = start(dict(bench.config.client), "--probe-port", str(port))
    with bench.waiting() as waiting:
        wait = waiting("w", event("a"))
        bench.emit("a")
        wait.firing()
    assert len(examine(bench.config).engines) == 1
    eventually("it is ready", lambda: status(port, "/readyz") == 200)
    assert status(port, "/healthz") == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert examine(bench.config).engines == []  # at once: the session did not have to time out
    log = (tmp_path / "engine.log").read_text()
    assert f"owns 2 source and 2 trigger partitions of bus '{bench.config.name}'" in log
    assert "has left the group" in log


@pytest.mark.long
def test_in_json_its_lines_have_bus_engine_and_place_as_fields(
    bench: Any, start: Start, tmp_path: Path, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOGGING__JSON_LOGS", "True")
    start(dict(bench.config.client))
    topic = bench.config.topic("event")
    producer = Producer(dict(bench.config.client))
    producer.produce(topic, b"no event", partition=1)
    assert producer.flush(30) == 0

    def lines() -> list[dict[str, Any]]:
        text = (tmp_path / "engine.log").read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]

    def logged() -> dict[str, Any] | None:
        return next((line for line in lines() if "goes to the dead-letter topic" in line["event"]), None)

    [member] = eventually("it is a member", lambda: examine(bench.config).engines)
    line = eventually("it logs the record", logged)
    assert line["event"].startswith(f"{topic}[1]@0 goes")
    place = {"topic": topic, "partition": 1, "offset": 0}
    assert line.items() >= {"bus": bench.config.name, "engine": member["engine"], **place}.items()
    of_the_engine = [line for line in lines() if line.get("logger") == "interlock.engine"]
    assert [line for line in of_the_engine if line["bus"] != bench.config.name] == []


@pytest.mark.long
def test_a_property_that_no_client_takes_ends_it_with_a_reason_and_not_its_value(
    bench: Any, start: Start, tmp_path: Path
) -> None:
    process = start({**bench.config.client, "sasl.mechanism": "PLAIN", "session.timeout.msec": "secret-77"})
    assert process.wait(60) == 1
    log = (tmp_path / "engine.log").read_text()
    assert "session.timeout.msec" in log
    assert "secret-77" not in log


@pytest.mark.long
def test_a_cluster_that_does_not_answer_is_tried_again_until_the_signal(
    start: Start, tmp_path: Path, eventually: Any
) -> None:
    process = start({"bootstrap.servers": "127.0.0.1:1"})
    eventually("it says why", lambda: "Cannot reach bus" in (tmp_path / "engine.log").read_text())
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
