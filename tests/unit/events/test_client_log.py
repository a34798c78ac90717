"""Which log lines of Kafka clients pass the filter."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from interlock.events import client_log as module
from interlock.events.client_log import OncePerMinute, WithoutValues, client_logger
from interlock.events.visible import VisibleArguments

AWAY = "FAIL [rdkafka#producer-%d] Connect to 127.0.0.1:9092 failed: Connection refused (after %dms)"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest) -> logging.Logger:
    return client_logger(f"interlock.test.{request.node.name}")


def test_a_line_passes_once_a_minute_whatever_numbers_it_contains(
    log: logging.Logger, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(module, "time", type("", (), {"monotonic": staticmethod(lambda: now)}))
    for second in range(130):
        now = float(second)
        log.warning(AWAY, 1, second)
        log.warning(AWAY, 2, 0)
    log.warning("GETPID: something else")
    assert len(caplog.records) == 3 + 1


def test_the_line_about_a_starting_coordinator_is_dropped(
    log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    text = "GETPID [rdkafka#producer-1] [thrd:main]: Failed to acquire idempotence PID from broker b/1: "
    log.warning("%sBroker: Coordinator load in progress: retrying", text)
    other = "GETPID: Failed to acquire transactional PID from broker b/1: Broker: "
    log.warning("%sCoordinator load in progress: retrying", other)
    log.warning("%sBroker: Cluster authorization failed", text)
    assert [str(record.args[0]) if record.args else "" for record in caplog.records] == [text]


def test_a_logger_gets_the_filter_once() -> None:
    first: Any = client_logger("interlock.test.same")
    assert client_logger("interlock.test.same") is first
    assert [type(each) for each in first.filters] == [VisibleArguments, OncePerMinute, WithoutValues]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("CONF [rdkafka#producer-1] [thrd:app]:   client.rack = r1", "client.rack = [hidden]"),
        ("CONF [a]b#c-1] [thrd:app]:   ssl.ca.pem = one\ntwo", "ssl.ca.pem = [hidden]"),
        ("CONF [rdkafka#producer-1] [thrd:app]: Client configuration:", "Client configuration:"),
        (AWAY % (1, 2), "Connection refused (after 2ms)"),
    ],
)
def test_what_a_client_logs_of_its_settings_has_no_values(
    log: logging.Logger, caplog: pytest.LogCaptureFixture, line: str, shown: str
) -> None:
    """`debug=conf` in a connection's extra."""
    with caplog.at_level(logging.DEBUG):
        log.debug("%s", line)
    assert caplog.messages[0].endswith(shown)
