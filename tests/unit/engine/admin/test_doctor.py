"""What the doctor makes of what it finds."""

from __future__ import annotations

from typing import Any

import pytest
from interlock.engine.admin import doctor
from interlock.engine.admin.access import needed
from interlock.engine.admin.findings import AirflowInfo, Finding, SinkAccess
from interlock.engine.admin.health import Health
from interlock.engine.config import BusConfig
from interlock.engine.errors import UnknownVersion, UnreachableError
from interlock.engine.records import BusRecord
from interlock.engine.registry.registry import Registry

SECRET = "canary"


def config(**client: str) -> BusConfig:
    own = {name.replace("_", "."): value for name, value in client.items()}
    return BusConfig(name="b", client={"bootstrap.servers": "far.example.com:9093", **own})


@pytest.mark.parametrize(
    ("ahead_ms", "within_ms", "level"),
    [
        (300, 10, "ok"),
        (-300, 10, "ok"),
        (1500, 600, "ok"),  # it may be as little as 0.9 s
        (1500, 10, "note"),
        (-4000, 10, "note"),
        (5100, 50, "wrong"),
        (-3_600_000, 50, "wrong"),
    ],
)
def test_a_clock_is_judged_by_how_far_it_is_off_at_least(ahead_ms: int, within_ms: int, level: str) -> None:
    assert doctor.clock(ahead_ms, within_ms).level == level


def test_a_clock_that_is_off_is_reported_with_its_direction_and_what_to_do() -> None:
    text = doctor.clock(-7200, 3).text
    assert text.startswith("The broker's clock is 7.2 s behind this machine's (+- 3 ms).")
    assert "time service" in text


@pytest.mark.parametrize(
    ("servers", "protocol", "level"),
    [
        ("far.example.com:9092", "PLAINTEXT", "note"),
        ("far.example.com:9092", "sasl_plaintext", "note"),
        ("localhost:9092,far.example.com:9092", "PLAINTEXT", "note"),
        ("localhost:9092, 127.0.0.1:9093", "PLAINTEXT", "ok"),
        ("far.example.com:9093", "SSL", "ok"),
        ("far.example.com:9093", "SASL_SSL", "ok"),
    ],
)
def test_a_connection_without_encryption_to_another_host_is_noted(
    servers: str, protocol: str, level: str
) -> None:
    found = doctor.connection(config(bootstrap_servers=servers, security_protocol=protocol))
    assert found.level == level


def test_a_connection_shows_protocol_mechanism_and_exceptions_but_no_other_values() -> None:
    client = {
        "bootstrap.servers": "far.example.com:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.password": SECRET,
        "ssl.providers": SECRET,
    }
    allowed = frozenset({"ssl.providers", "plugin.library.paths"})
    text = doctor.connection(BusConfig(client=client, allowed_client_properties=allowed)).text
    assert "SASL_SSL, PLAIN; allowed only by [interlock] allowed_client_properties: ssl.providers." in text
    assert SECRET not in text


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "own events get a proof; none needs one, since interlock.proof.from is not set."),
        ({"interlock.proof.from": "2026-12-01T01:00:00+01:00"}, "need a proof from 2026-12-01T00:00:00Z on."),
    ],
    ids=["a secret", "and a time"],
)
def test_a_connection_says_which_events_need_a_proof_and_shows_no_secret(
    settings: dict[str, str], expected: str
) -> None:
    canary = "canary" * 6
    client = {"bootstrap.servers": "a:1", "security.protocol": "SSL", "interlock.proof.secret": canary}
    text = doctor.connection(BusConfig(client={**client, **settings})).text
    assert text.startswith("Connection 'kafka_default': SSL. Interlock's own events")
    assert expected in text
    assert canary not in text


@pytest.mark.parametrize(
    ("version", "level"), [(None, "note"), ("", "note"), ("2.7", "note"), ("3.1", "ok"), ("4.1", "ok")]
)
def test_brokers_older_than_what_is_tried_are_noted(version: str | None, level: str) -> None:
    assert doctor.broker(version).level == level


@pytest.mark.parametrize(
    ("airflow", "level"), [("3.2.9", "wrong"), ("3.3.0", "ok"), ("3.10.1rc1", "ok"), ("4.0.0", "wrong")]
)
def test_an_airflow_that_is_not_supported_is_wrong(airflow: str, level: str) -> None:
    [found] = doctor.versions(airflow)
    assert (found.level, f"Airflow {airflow}" in found.text) == (level, True)


def test_a_connection_of_a_team_is_wrong_for_triggers_read_those_without_one() -> None:
    [found] = doctor.teams("c", AirflowInfo("3.3.2", multi_team=True, team="blue"))
    assert (found.level, "team 'blue'" in found.text) == ("wrong", True)
    [found] = doctor.teams("c", AirflowInfo("3.3.2", multi_team=True))
    assert found.level == "ok"
    assert list(doctor.teams("c", AirflowInfo("3.3.2"))) == []


def test_each_missing_right_is_reported_with_its_role_and_topic() -> None:
    acls = [acl for acl in needed(config(), roles=["wait", "emit"]) if acl.resource == "topic"]
    allowed: dict[str, set[str] | str] = {
        "b-event": {"Read", "Describe"},
        "b-action": {"Read", "Write", "Describe"},
        "b-subscription": "Topic authorization failed",
    }
    texts = [found.text for found in doctor.access(acls, allowed)]
    assert texts == [
        "emit: allow Write on topic 'b-event' to the user of this connection.",
        "wait: topic 'b-subscription' cannot be described: Topic authorization failed.",
    ]
    everything: dict[str, set[str] | str] = {acl.name: {"All"} for acl in acls}
    assert [found.level for found in doctor.access(acls, everything)] == ["ok"]


def test_a_cluster_that_does_not_answer_ends_the_checks_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def silent(_config: BusConfig) -> Any:
        raise UnreachableError("Cannot reach it: no answer.")

    monkeypatch.setattr(doctor.probe, "cluster", silent)
    found = list(doctor.diagnose(config(), AirflowInfo("3.3.2")))
    text = "Cannot reach it: no answer."
    assert found[-1] == Finding("connection", "wrong", text, "InterlockRestarts")


@pytest.mark.parametrize(
    ("roles", "looked_at"),
    [
        (["emit"], {"access"}),
        (["wait"], {"access", "clock"}),
        (["engine"], {"topics", "access", "clock", "bus", "deployment"}),
        (["deliver"], {"access", "sinks"}),
    ],
)
def test_checks_for_a_role_look_only_at_what_it_may_see(
    monkeypatch: pytest.MonkeyPatch, roles: list[Any], looked_at: set[str]
) -> None:
    cluster = doctor.probe.Cluster(1, {"b-subscription": 1})
    monkeypatch.setattr(doctor.probe, "cluster", lambda _config: cluster)
    monkeypatch.setattr(doctor.probe, "broker_version", lambda _config: "4.1")

    def unreachable(*_: Any) -> Any:
        raise UnreachableError("It was asked.")

    for name in ("_topics", "_access", "_bus", "_sinks"):
        monkeypatch.setattr(doctor, name, unreachable)
    monkeypatch.setattr(doctor.probe, "clock_difference_ms", unreachable)
    monkeypatch.setattr(doctor.Subscriptions, "read", unreachable)
    begun: list[str] = []
    asked = [
        found.check
        for found in doctor.diagnose(config(), AirflowInfo("3.3.2"), roles, begun.append)
        if found.text == "It was asked."
    ]
    assert (set(asked), len(asked)) == (looked_at, len(looked_at))
    assert begun == ["connection", *asked]


class Granted:
    """A cluster that reports what is allowed, and a bus with listed topics."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **allowed: set[str] | str) -> None:
        self.asked: list[set[str]] = []
        self.registry_was_read = False
        self._allowed = {name.replace("_", "-"): may for name, may in allowed.items()}
        monkeypatch.setattr(doctor.probe, "allowed", self._tell)
        monkeypatch.setattr(doctor, "bus_record", self._record)

    def _tell(self, _config: BusConfig, names: set[str]) -> dict[str, set[str] | str]:
        self.asked.append(set(names))
        return {name: self._allowed.get(name, {"All"}) for name in names}

    def _record(self, _config: BusConfig) -> BusRecord:
        self.registry_was_read = True
        return BusRecord(partitions=1, topics=("raw", "orders"))


def test_rights_on_the_topics_that_a_bus_lists_are_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    granted = Granted(monkeypatch, raw={"Describe"}, orders="Unknown topic")
    texts = [found.text for found in doctor._access(config(), ["wait"])]
    assert texts == [
        "wait: allow Read on topic 'raw' to the user of this connection.",
        "wait: topic 'orders' cannot be described: Unknown topic.",
    ]
    assert granted.asked[1] == {"raw", "orders"}


def test_an_emitter_needs_no_right_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    granted = Granted(monkeypatch, raw=set(), orders=set())
    assert [found.level for found in doctor._access(config(), ["emit"])] == ["ok"]
    assert not granted.registry_was_read


@pytest.mark.parametrize("may", [{"Describe", "Write"}, "Topic authorization failed"])
def test_a_registry_that_must_not_be_read_is_not_tried(
    may: set[str] | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted = Granted(monkeypatch, b_subscription=may)
    levels = [found.level for found in doctor._access(config(), ["wait"])]
    assert (levels, granted.registry_was_read) == (["note", "wrong"], False)


class Settings:
    """Topics with LogAppendTime, but for `orders`, which is compacted and has its producers' timestamps."""

    def __init__(self, _config: BusConfig) -> None: ...

    def settings(self, topic: str) -> dict[str, str]:
        own = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}
        others = {"message.timestamp.type": "CreateTime", "cleanup.policy": "compact,delete"}
        return others if topic == "orders" else own

    def close(self) -> None: ...


def test_a_listed_topic_with_timestamps_of_producers_and_tombstones_is_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A page said that the brokers must set the timestamps, and doctor called such a topic fine."""
    Granted(monkeypatch)
    monkeypatch.setattr(doctor, "check", lambda _config: {"b-event": 1})
    monkeypatch.setattr(doctor, "Admin", Settings)
    cluster = doctor.probe.Cluster(1, {"b-subscription": 1, "orders": 1, "raw": 1})
    [_, stamps, tombstones] = doctor._topics(config(), cluster)
    assert {stamps.level, tombstones.level} == {"note"}
    assert stamps.text.startswith("Producers set the timestamps of 'orders'")
    assert tombstones.text.startswith("'orders' is compacted: each tombstone is an event without data")


def test_a_topic_that_is_listed_and_not_there_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    Granted(monkeypatch)
    monkeypatch.setattr(doctor, "check", lambda _config: {"b-event": 1})
    monkeypatch.setattr(doctor, "Admin", Settings)
    cluster = doctor.probe.Cluster(1, {"b-subscription": 1, "orders": 1})
    [ok, wrong, *_] = doctor._topics(config(), cluster)
    assert (ok.level, wrong.level) == ("ok", "wrong")
    assert wrong.text.startswith("The listed topic 'raw' does not exist")
    assert "topics remove raw" in wrong.text


def test_a_count_of_one_is_singular(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.probe, "cluster", lambda _config: doctor.probe.Cluster(1, {}))
    monkeypatch.setattr(doctor.probe, "broker_version", lambda _config: "4.1")
    text = next(one.text for one in doctor.diagnose(config(), AirflowInfo("3.3.2")) if "answers" in one.text)
    assert text.endswith("answers; it has 1 broker.")
    health = Health("b", "one:1", engines=[{}], partitions=[{"lag": 1}], registrations={"durable": 1})
    monkeypatch.setattr(doctor, "examine", lambda _config: health)
    assert [found.text for found in doctor._bus(config(), [])] == [
        "1 engine, 1 registration; 1 record not processed yet."
    ]


def test_sinks_are_not_checked_if_the_setting_of_their_networks_is_invalid() -> None:
    [note] = doctor._sinks(config(), AirflowInfo("3.3.2"), ["deliver"])
    assert (note.check, note.level) == ("sinks", "note")


@pytest.mark.parametrize(("roles", "group"), [(["deliver"], "b-deliver-airflow"), (["wait"], "b-engine")])
def test_sinks_are_read_with_a_group_that_the_role_may_use(
    monkeypatch: pytest.MonkeyPatch, roles: list[Any], group: str
) -> None:
    read: list[str] = []

    def registry(found: BusConfig, **_: Any) -> Registry:
        read.append(found.group)
        return Registry()

    monkeypatch.setattr(doctor, "read_registry", registry)
    info = AirflowInfo("3.3.2", sinks=SinkAccess(lambda _: pytest.fail("there are no sinks")))
    assert [each.level for each in doctor._sinks(config(), info, roles)] == ["ok"]
    assert read == [group]


def test_a_record_of_a_later_version_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the bus names it."""

    def unknown(_config: BusConfig) -> Any:
        raise UnknownVersion("It has version 9.")

    monkeypatch.setattr(doctor.Subscriptions, "read", unknown)
    assert list(doctor._deployments(config(), AirflowInfo("3.3.2"))) == []
