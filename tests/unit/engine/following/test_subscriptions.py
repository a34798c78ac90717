"""Finding a subscription by its name, and who holds it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from interlock import event
from interlock.engine.bus import End, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError, TopicsError
from interlock.engine.following import subscriptions as module
from interlock.engine.following.subscriptions import Subscriptions
from interlock.engine.records import (
    BUS_KEY,
    BusRecord,
    LeaseRecord,
    Registration,
    RegistrationKey,
    encode_json,
    sink_key,
)
from interlock.engine.registry.lazy import LazyRegistry

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
TOPIC = TopicPartition("b-subscription", 0)
HOUR_MS = 3_600_000


class Written:
    """A registry topic that `Subscriptions.read` reads."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.now_ms = int(time.time() * 1000)
        self.write(BUS_KEY, encode_json(BusRecord(partitions=2)), 0)

    def registry(self) -> LazyRegistry:
        registry = LazyRegistry()
        for item in (*self.records, End(TOPIC, len(self.records))):
            registry.apply(item)
        return registry

    def write(self, key: bytes, value: bytes | None, ago_ms: int) -> None:
        self.records.append(Record(TOPIC, len(self.records), self.now_ms - ago_ms, key, value, None))

    def register(self, name: str, ago_ms: int = HOUR_MS, **arguments: Any) -> Registration:
        registration = Registration.of(name, event("t"), None, 0, **arguments)
        key = RegistrationKey(registration.incarnation, "n").encode()
        self.write(key, encode_json(registration), ago_ms)
        return registration

    def lease(self, process: str, *registrations: Registration, ago_ms: int) -> None:
        named = [registration.incarnation for registration in registrations]
        lease = LeaseRecord(deployment="airflow", incarnations=named, host="h")
        self.write(f"lease/{process}/0".encode(), encode_json(lease), ago_ms)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    made = Written()
    monkeypatch.setattr(module, "read_registry", lambda _, about: made.registry())
    return made


def test_a_name_is_found_whole_or_by_a_part_that_no_other_has(written: Written) -> None:
    for name in ("airflow/a/run/w", "airflow/a/run/w2", "airflow/b/run/w"):
        written.register(name)
    subscriptions = Subscriptions.read(CONFIG)
    assert subscriptions.find("airflow/a/run/w").registration.subscription == "airflow/a/run/w"
    assert subscriptions.find("b/run").registration.subscription == "airflow/b/run/w"
    with pytest.raises(EngineError, match=r"'/a/' matches 2 subscriptions: 'airflow/a/run/w', .*w2'"):
        subscriptions.find("/a/")
    with pytest.raises(EngineError, match="subscriptions list --bus b"):
        subscriptions.find("c")


def test_a_wait_that_a_process_names_is_not_to_be_cancelled(written: Written) -> None:
    wait = written.register("w")
    written.lease("p", wait, ago_ms=60_000)
    subscriptions = Subscriptions.read(CONFIG)
    registered = subscriptions.find("w")
    [holder] = subscriptions.held_by(registered)
    assert (holder.process, holder.host, holder.deployment) == ("p", "h", "airflow")
    assert "process 'p' on host 'h' waits for it" in subscriptions.refusal(registered)


def test_a_lease_that_is_old_or_was_ended_holds_nothing(written: Written) -> None:
    old, ended = written.register("old", 2 * HOUR_MS), written.register("ended", 2 * HOUR_MS)
    written.lease("p", old, ago_ms=HOUR_MS)
    written.lease("q", ended, ago_ms=60_000)
    written.write(b"lease/q/0", None, 30_000)
    subscriptions = Subscriptions.read(CONFIG)
    for name in ("old", "ended"):
        registered = subscriptions.find(name)
        assert (subscriptions.held_by(registered), subscriptions.refusal(registered)) == ([], "")


def test_a_wait_is_taken_for_held_until_its_process_must_have_named_it(written: Written) -> None:
    written.register("new", 60_000)
    written.register("due", 301_000)
    subscriptions = Subscriptions.read(CONFIG)
    assert "a task may wait for it" in subscriptions.refusal(subscriptions.find("new"))
    assert subscriptions.refusal(subscriptions.find("due")) == ""


def test_a_durable_subscription_can_be_cancelled_while_a_process_holds_it(written: Written) -> None:
    durable = written.register("d", 0, kind="durable")
    written.lease("p", durable, ago_ms=60_000)
    subscriptions = Subscriptions.read(CONFIG)
    registered = subscriptions.find("d")
    assert [holder.process for holder in subscriptions.held_by(registered)] == ["p"]
    assert subscriptions.refusal(registered) == ""


def test_a_bus_without_a_bus_record_is_an_error_with_the_command(written: Written) -> None:
    written.records.clear()
    with pytest.raises(TopicsError, match="topics create --bus b"):
        Subscriptions.read(CONFIG)


def test_a_sink_whose_subscription_was_cancelled_is_named_until_it_is_removed(written: Written) -> None:
    written.register("airflow/deliver/a", kind="durable")
    for name in ("airflow/deliver/a", "airflow/deliver/b", "airflow/deliver/c"):
        written.write(sink_key(name), b"{}", 0)
    written.write(sink_key("airflow/deliver/c"), None, 0)
    found = Subscriptions.read(CONFIG)
    assert (found.sinks_alone(), found.sinks_alone("x")) == (["airflow/deliver/b"], [])
