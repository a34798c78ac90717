"""The commands when the cluster does not answer."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import yaml
from airflow.cli.cli_parser import get_parser
from interlock.engine.kafka import clients

SAYS = "Cannot reach bus 'interlock' at 127.0.0.1:1 (connection 'kafka_default')"


@pytest.fixture(autouse=True)
def unreachable(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A port on which nothing listens, and a short timeout."""
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
    monkeypatch.setattr(clients, "ANSWER_TIMEOUT_S", 0.5)
    monkeypatch.setattr(clients.client_log, "filters", [])
    caplog.set_level(logging.DEBUG)


def client_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Returns the log lines of clients of this port; a client that another test has left has another port."""
    return [line for line in caplog.messages if "rdkafka" in line and "127.0.0.1:1/" in line]


def run(*words: str) -> str:
    """Returns the exit of the command."""
    args = get_parser().parse_args(["interlock", *words])
    with pytest.raises(SystemExit) as ended:
        args.func(args)
    return str(ended.value)


@pytest.mark.parametrize(
    "words",
    [
        ("dead-letters", "list"),
        ("dead-letters", "show", "0@0"),
        ("dead-letters", "redrive", "--all"),
        ("emit", "com.shop.done"),
        ("explain", "w"),
        ("health",),
        ("subscriptions", "list"),
        ("subscriptions", "show", "w"),
        ("subscriptions", "cancel", "w"),
        ("subscriptions", "skip", "w", "f"),
        ("tail",),
        ("topics", "create"),
        ("topics", "check"),
        ("topics", "add", "t"),
        ("topics", "remove", "t"),
        ("topics", "resume", "--all", "--from", "end"),
    ],
)
def test_each_command_reports_it_first_and_without_log_lines_of_the_client(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def read(*_: object, **__: object) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr("interlock.engine.kafka.reader.KafkaReader.__init__", read)
    monkeypatch.setattr("interlock.events.emitter.Emitter.emit", read)
    assert SAYS in run(*words)
    assert client_lines(caplog) == []


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_health_still_prints_one_object(output: str, read: Any, capsys: pytest.CaptureFixture[str]) -> None:
    message = run("health", "--output", output)
    whole = read(capsys.readouterr().out)
    assert whole["ok"] is False
    [problem] = whole["problems"]
    assert whole["alerts"] == {problem: "InterlockRestarts"}
    assert problem.startswith(SAYS)
    assert message == f"airflow interlock health: {problem}"


def test_the_doctor_reports_it_without_log_lines_of_the_client(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert run("doctor", "--output", "json") == "1"
    assert SAYS in json.loads(capsys.readouterr().out)[-1]["found"]
    assert client_lines(caplog) == []


def test_log_lines_of_the_client_are_shown_if_the_connection_enables_debugging(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    extra = {"bootstrap.servers": "127.0.0.1:1", "debug": "broker"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    assert SAYS in run("health")
    assert client_lines(caplog) != []
