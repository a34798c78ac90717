"""The `[interlock]` section, and the bus of a connection."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_network

import pytest
from airflow.sdk import Connection
from airflow.sdk.log import redact
from interlock.engine.errors import ConfigError
from interlock.events.proof import ACCEPTED, FROM, SECRET
from interlock.triggers.settings import (
    DeliverySettings,
    InterlockSettings,
    ListenerSettings,
    bus_config,
    delivery_settings,
    listener_settings,
    resume_floor,
    settings,
)


def set_section(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        monkeypatch.setenv(f"AIRFLOW__INTERLOCK__{name.upper()}", value)


def kafka(**extra: object) -> Connection:
    return Connection(conn_id="c", conn_type="kafka", extra=json.dumps(extra))


def test_without_a_section_the_defaults_apply() -> None:
    assert settings() == InterlockSettings("interlock", "airflow", timedelta(hours=24))


def test_the_section_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    set_section(monkeypatch, bus="b", deployment="d", lookback_hours="1.5")
    assert settings() == InterlockSettings("b", "d", timedelta(hours=1.5))


def test_a_task_is_resumed_a_heartbeat_and_the_margin_after_its_deferral(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert resume_floor() == timedelta(seconds=10)
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "1")
    set_section(monkeypatch, resume_margin="0.5")
    assert resume_floor() == timedelta(seconds=1.5)


def test_client_properties_are_allowed_by_the_section_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    off = {"bootstrap.servers": "x:1", "ssl.endpoint.identification.algorithm": "none"}
    with pytest.raises(ConfigError, match="allowed_client_properties"):
        bus_config(kafka(**off, allowed_client_properties="ssl.endpoint.identification.algorithm"))
    set_section(
        monkeypatch, allowed_client_properties=" ssl.providers ,ssl.endpoint.identification.algorithm,,"
    )
    assert bus_config(kafka(**off)).client == off
    assert settings().allowed_client_properties == {"ssl.providers", "ssl.endpoint.identification.algorithm"}


def test_a_connections_token_function_is_used_if_airflow_allows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = {"bootstrap.servers": "x:1", "oauth_cb": "ours.tokens.get"}
    monkeypatch.setenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST", "ours.tokens, ours.tokens.get")
    assert bus_config(kafka(**tokens)).client == tokens
    with pytest.raises(ConfigError, match="oauth_cb"):
        bus_config(kafka(**tokens | {"oauth_cb": "theirs.tokens.get"}))
    monkeypatch.delenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST")
    with pytest.raises(ConfigError, match="oauth_cb"):
        bus_config(kafka(**tokens))


def test_a_token_function_that_is_no_text_is_an_error_of_the_connection() -> None:
    """It was a TypeError, which failed the waits that a ConfigError lets continue."""
    with pytest.raises(ConfigError, match="property 'oauth_cb': expected a string"):
        bus_config(kafka(**{"bootstrap.servers": "x:1", "oauth_cb": ["ours.tokens.get"]}))


def test_bus_and_deployment_default_to_the_section(monkeypatch: pytest.MonkeyPatch) -> None:
    set_section(monkeypatch, bus="b", deployment="d")
    servers = {"bootstrap.servers": "x:1"}
    config = bus_config(kafka(**servers))
    assert (config.name, config.deployment, config.bootstrap_servers) == ("b", "d", "x:1")
    other = bus_config(kafka(**servers), bus="o", deployment="e")
    assert (other.name, other.deployment) == ("o", "e")


def test_a_connection_of_another_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="'c' has type 'http'; give one of type 'kafka'"):
        bus_config(Connection(conn_id="c", conn_type="http"))


@pytest.mark.parametrize("extra", ["[1]", json.dumps('{"bootstrap.servers": "x:1"}')])
def test_a_connection_whose_extra_is_no_object_is_refused_by_name(extra: str) -> None:
    """It was an AttributeError that named no connection, and that ended an engine in the foreground."""
    with pytest.raises(ConfigError, match="extra of connection 'c' is not a JSON object"):
        bus_config(Connection(conn_id="c", conn_type="kafka", extra=extra))


def test_a_connection_without_servers_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"'c' has no 'bootstrap.servers'"):
        bus_config(kafka())


def test_without_a_section_there_is_no_listener() -> None:
    assert listener_settings() == ListenerSettings(frozenset(), (), frozenset(), "kafka_default", 5.0)


def test_the_listeners_settings_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    set_section(
        monkeypatch,
        listener="dag_run, task_instance",
        listener_dags="a*, !ab",
        listener_tags="x,y",
        listener_conn_id="k",
        listener_timeout="0.5",
    )
    assert listener_settings() == ListenerSettings(
        kinds=frozenset({"dag_run", "task_instance"}),
        dags=(("a*", False), ("ab", True)),
        tags=frozenset({"x", "y"}),
        connection="k",
        timeout_s=0.5,
    )


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        *(("lookback_hours", text, settings) for text in ("a day", "-1", "nan", "inf", "1e300")),
        *(("resume_margin", text, resume_floor) for text in ("soon", "-1", "301", "nan")),
        *(("listener_timeout", text, listener_settings) for text in ("0", "-1", "16", "soon", "nan")),
        *(
            ("deliveries_in_triggerer", text, delivery_settings)
            for text in ("-1", "0.5", "1001", "many", "nan", "inf")
        ),
    ],
)
def test_an_invalid_number_is_named(
    name: str, text: str, read: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_section(monkeypatch, **{name: text})
    with pytest.raises(ConfigError, match=f"{name} = '{text}'"):
        read()


def test_the_settings_of_deliveries_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert delivery_settings() == DeliverySettings((), 16)
    set_section(monkeypatch, delivery_networks="10.0.0.0/8, ::1,", deliveries_in_triggerer="0")
    networks = (ip_network("10.0.0.0/8"), ip_network("::1"))
    assert delivery_settings() == DeliverySettings(networks, 0)


@pytest.mark.parametrize("text", ["localhost", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/8 ::1"])
def test_a_network_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_section(monkeypatch, delivery_networks=text)
    with pytest.raises(ConfigError, match=r"delivery_networks = .*give networks such as 10"):
        delivery_settings()


def test_airflow_masks_the_credentials_of_sinks_in_a_connections_extra() -> None:
    extra = {"bearer_token": "canary", "headers": {"Authorization": "canary", "X-Api_Key": "canary"}}
    assert "canary" not in str(redact(extra, "extra"))


def test_airflow_masks_the_secrets_of_proofs_in_a_connections_extra() -> None:
    """It looks for certain words in the names of members."""
    extra = {SECRET: "canary", ACCEPTED: "canary", FROM: "2026-12-01T00:00:00Z"}
    assert redact(extra, "extra") == {SECRET: "***", ACCEPTED: "***", FROM: "2026-12-01T00:00:00Z"}
