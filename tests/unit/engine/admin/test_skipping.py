"""Finding the firing that is to be skipped."""

from __future__ import annotations

import pytest
from interlock import event
from interlock.engine.admin import skipping as module
from interlock.engine.admin.skipping import open_firing
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError
from interlock.engine.following.subscriptions import Subscriptions
from interlock.engine.records import BUS_KEY, BusRecord, Registration, RegistrationKey, encode_json
from interlock.engine.registry.lazy import LazyRegistry

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
TOPIC = TopicPartition("b-subscription", 0)


@pytest.mark.parametrize(
    ("name", "what_happened"),
    [
        ("airflow/deliver/ship", "it was delivered, given up or skipped"),
        ("airflow/dispatch/settle", "it was dispatched or skipped"),
    ],
)
def test_a_firing_that_is_not_open_was_delivered_or_dispatched(
    monkeypatch: pytest.MonkeyPatch, name: str, what_happened: str
) -> None:
    registration, registry = Registration.of(name, event("t"), None, 0, kind="durable"), LazyRegistry()
    registry.apply(Record(TOPIC, 0, 0, BUS_KEY, encode_json(BusRecord(partitions=2)), None))
    key = RegistrationKey(registration.incarnation, "n").encode()
    registry.apply(Record(TOPIC, 1, 0, key, encode_json(registration), None))
    monkeypatch.setattr(Subscriptions, "read", lambda config, about: Subscriptions(config, registry))
    monkeypatch.setattr(module, "read_to_end", lambda *_: iter(()))
    with pytest.raises(EngineError) as raised:
        open_firing(CONFIG, name, "f1")
    assert f"{name!r} has no open firing 'f1': {what_happened}, retention" in str(raised.value)
    logs = ("log of the process that delivers", "log of the dispatcher's task")
    assert [each in str(raised.value) for each in logs] == ["deliver/" in name, "dispatch/" in name]
