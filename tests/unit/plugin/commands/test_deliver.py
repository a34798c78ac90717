"""`airflow interlock deliver`: what it refuses to begin with, and what it starts."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser
from interlock.engine.config import BusConfig
from interlock.engine.runtime import delivering
from interlock.engine.sending.posts import HttpPosts
from interlock.plugin.commands import deliver

USABLE = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}


@pytest.mark.parametrize(
    ("arguments", "connection", "networks", "expected_text"),
    [
        (["--slots", "0"], USABLE, "", "--slots: give a number from 1 to 10000."),
        (["--slots", "10001"], USABLE, "", "--slots: give a number from 1 to 10000."),
        (["--drain", "-1"], USABLE, "", "--drain: give seconds from 0 to 600."),
        (["--drain", "601"], USABLE, "", "--drain: give seconds from 0 to 600."),
        (["--probe-port", "0"], USABLE, "", "--probe-port: give a number from 1 to 65535."),
        (["--probe-port", "65536"], USABLE, "", "--probe-port: give a number from 1 to 65535."),
        (
            ["--probe-port", "8086", "--probe-host", "192.0.2.1"],
            USABLE,
            "",
            "airflow interlock deliver: Probes cannot be served on 192.0.2.1:8086: ",
        ),
        ([], USABLE, "localhost", "airflow interlock deliver: [interlock] delivery_networks = 'localhost'"),
        (
            [],
            {"conn_type": "http"},
            "",
            "airflow interlock deliver: Connection 'kafka_default' has type 'http'",
        ),
        ([], {"conn_type": "kafka", "extra": {}}, "", "has no 'bootstrap.servers'"),
        (
            [],
            {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1", "no.such": "canary-1"}},
            "",
            "no.such",
        ),
    ],
    ids=[
        *("no slots", "too many", "drain below 0", "drain too long", "no port", "port too high"),
        *("address of another host", "network", "type", "servers", "property"),
    ],
)
def test_it_ends_at_once_with_the_reason_if_an_argument_or_setting_cannot_be_used(
    arguments: list[str],
    connection: object,
    networks: str,
    expected_text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW__INTERLOCK__DELIVERY_NETWORKS", networks)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    args = get_parser().parse_args(["interlock", "deliver", *arguments])
    with pytest.raises(SystemExit) as raised:
        args.func(args)
    assert expected_text in str(raised.value.code)
    assert "canary-1" not in str(raised.value.code)


def test_what_it_starts_makes_requests_with_its_arguments_and_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: dict[str, Any] = {}
    stop = threading.Event()

    class Delivering:
        """Makes the requests' object, as the deliverer's thread does."""

        board = SimpleNamespace(listen=lambda *_: None)

        def __init__(
            self,
            config: BusConfig,
            make_posts: Callable[..., HttpPosts],
            process: delivering.DelivererProcess,
            _metrics: object,
        ) -> None:
            self._make = lambda: make_posts(config, lambda: None)
            made["slots"], made["drain_s"] = process.parts.limits.slots, process.drain_s
            made["collects_after"] = gc.get_threshold()[0]

        def start(self) -> None:
            made["posts"] = self._make()
            made["posts"].close()
            stop.set()

        def stop(self) -> None:
            made["stopped"] = True

    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(USABLE))
    monkeypatch.setenv("AIRFLOW__INTERLOCK__DELIVERY_NETWORKS", "10.0.0.0/8")
    monkeypatch.setattr(delivering, "Delivering", Delivering)
    args = get_parser().parse_args(["interlock", "deliver", "--slots", "7", "--drain", "3"])
    before = gc.get_threshold()
    try:
        gc.set_threshold(700)
        deliver._run(args, stop)
    finally:
        gc.set_threshold(*before)
    assert isinstance(made.pop("posts"), HttpPosts)
    assert made.pop("collects_after") == delivering.COLLECT_AFTER
    assert made == {"slots": 7, "drain_s": 3, "stopped": True}
