"""`airflow interlock deliver`: what it refuses to begin with."""

from __future__ import annotations

import json

import pytest
from airflow.cli.cli_parser import get_parser

USABLE = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}


@pytest.mark.parametrize(
    ("arguments", "connection", "networks", "told"),
    [
        (["--slots", "0"], USABLE, "", "--slots: give a number from 1 to 10000."),
        (["--slots", "10001"], USABLE, "", "--slots: give a number from 1 to 10000."),
        (["--drain", "-1"], USABLE, "", "--drain: give seconds from 0 to 600."),
        (["--drain", "601"], USABLE, "", "--drain: give seconds from 0 to 600."),
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
    ids=["no slots", "too many", "drain below 0", "drain too long", "network", "type", "servers", "property"],
)
def test_it_ends_at_once_with_the_reason_if_an_argument_or_setting_cannot_be_used(
    arguments: list[str], connection: object, networks: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW__INTERLOCK__DELIVERY_NETWORKS", networks)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    args = get_parser().parse_args(["interlock", "deliver", *arguments])
    with pytest.raises(SystemExit) as raised:
        args.func(args)
    assert told in str(raised.value.code)
    assert "canary-1" not in str(raised.value.code)
