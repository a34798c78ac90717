"""Whether deliveries could use the connections of sinks, as the doctor sees it."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_network
from typing import Any

import pytest
from interlock.engine.admin.findings import Finding, SinkAccess
from interlock.engine.admin.sink_checks import check_sinks
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.records import encode_json, sink_key
from interlock.engine.registry.registry import Registry
from interlock.engine.sending.target import ClientCredentials, SinkTarget, TargetError, Tls

HOSTS = {
    "public.example": ["93.184.216.34"],
    "inside.example": ["10.0.0.5"],
    "both.example": ["::1", "8.8.8.8"],
}
PUBLIC = SinkTarget(url="https://public.example/base")


def resolve(host: str, port: int) -> Collection[str]:
    if host not in HOSTS:
        raise OSError("no such name")
    return HOSTS[host]


def registry_of(*sinks: SinkRecord, **others: bytes) -> Registry:
    found = Registry()
    records = {sink.key: encode_json(sink) for sink in sinks}
    records |= {sink_key(f"airflow/deliver/{name}"): value for name, value in others.items()}
    for offset, (key, value) in enumerate(records.items()):
        found.apply(Record(TopicPartition("b-subscription", 0), offset, 0, key, value, None))
    return found


def ship(path: str = "", connection: str = "crm", name: str = "airflow/deliver/ship") -> SinkRecord:
    return SinkRecord(subscription=name, connection=connection, path=path)


def found(registry: Registry, *allowed: str, **targets: SinkTarget) -> list[Finding]:
    def lookup(conn_id: str) -> SinkTarget:
        if conn_id not in targets:
            raise TargetError(f"This process can read no connection {conn_id!r}: create it, with type http.")
        return targets[conn_id]

    access = SinkAccess(lookup, tuple(map(ip_network, allowed)))
    return list(check_sinks(registry, "airflow", access, resolve))


def test_sinks_whose_connections_can_be_used_are_well() -> None:
    registry = registry_of(ship("/orders"), ship("/more", name="airflow/deliver/more"))
    assert found(registry, crm=PUBLIC) == [
        Finding("sinks", "ok", "Deployment 'airflow' has 2 sinks; connections: crm. No request was sent.")
    ]


def test_sinks_of_other_deployments_are_not_checked() -> None:
    [well] = found(registry_of(ship(name="other/deliver/ship")))
    assert well == Finding(
        "sinks",
        "ok",
        "Deployment 'airflow' has 0 sinks. Those of other deployments were not checked: 1.",
    )


def test_sinks_with_the_same_fault_are_one_finding() -> None:
    names = [f"airflow/deliver/s{number}" for number in range(5)]
    [wrong] = found(registry_of(*(ship(name=name) for name in names)))
    assert wrong == Finding(
        "sinks",
        "wrong",
        f"{', '.join(names[:3])} and 2 more: This process can read no connection 'crm': create it, with type "
        "http.",
        "InterlockSinkPaused",
    )


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (SinkTarget(url="http://inside.example"), "host 'inside.example': 10.0.0.5 is not public"),
        (SinkTarget(url="http://gone.example"), "the name of host 'gone.example' cannot be resolved here"),
        (
            SinkTarget(
                url="https://public.example",
                auth=ClientCredentials(
                    token_url="https://inside.example/token", client_id="id", client_secret="canary"
                ),
            ),
            "host 'inside.example': 10.0.0.5",
        ),
        (
            SinkTarget(url="https://public.example", tls=Tls(ca_file="/nowhere/ca.pem")),
            "No certificate or key can be read from /nowhere/ca.pem",
        ),
    ],
    ids=["private", "unknown name", "token endpoint", "certificates"],
)
def test_a_connection_that_no_delivery_could_use_is_named(target: SinkTarget, expected: str) -> None:
    [wrong] = found(registry_of(ship()), crm=target)
    assert wrong.level == "wrong"
    assert wrong.text.startswith("airflow/deliver/ship: Connection 'crm': ")
    assert expected in wrong.text
    assert "canary" not in wrong.text


@pytest.mark.parametrize("host", ["inside.example", "both.example"])
def test_an_address_that_the_setting_allows_is_well(host: str) -> None:
    """Of several addresses, one that may be reached suffices."""
    [well] = found(registry_of(ship()), "10.0.0.0/8", crm=SinkTarget(url=f"http://{host}"))
    assert well.level == "ok"


def test_a_metadata_service_is_wrong_although_its_network_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HOSTS, "cloud.example", ["169.254.169.254"])
    [wrong] = found(registry_of(ship()), "169.254.0.0/16", crm=SinkTarget(url="http://cloud.example"))
    assert "metadata service" in wrong.text


def test_a_path_that_does_not_fit_and_a_record_that_cannot_be_read_are_wrong() -> None:
    registry = registry_of(ship("/../x?token=canary"), later=b'{"v":99}')
    texts = [each.text for each in found(registry, crm=PUBLIC)]
    assert [text.partition(": ")[0] for text in texts] == ["airflow/deliver/later", "airflow/deliver/ship"]
    assert "cannot be read" in texts[0]
    assert texts[1].endswith("'/../x?token=***' has a fragment (#) or a part '..': leave it out.")


def test_each_connection_is_looked_up_once() -> None:
    asked: list[str] = []

    def lookup(conn_id: str) -> Any:
        asked.append(conn_id)
        return PUBLIC

    registry = registry_of(*(ship(name=f"airflow/deliver/s{number}") for number in range(3)))
    list(check_sinks(registry, "airflow", SinkAccess(lookup), resolve))
    assert asked == ["crm"]
