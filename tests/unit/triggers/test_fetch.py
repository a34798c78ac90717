"""`fetch`: which events it reads, and which it returns unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import BaseHook, Connection
from interlock import Event, fetch
from interlock.engine.errors import FetchError

THERE = Event.of("x", "/s", id="1", data={"rows": 3})


@pytest.fixture(autouse=True)
def read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []

    def referred(config: Any, dataref: str) -> Event:
        calls.append((config.name, config.connection, dataref))
        return THERE

    monkeypatch.setattr("interlock.engine.reading.references.referred_event", referred)
    monkeypatch.setattr(
        BaseHook,
        "get_connection",
        lambda conn_id: Connection(conn_id=conn_id, conn_type="kafka", extra='{"bootstrap.servers": "x:1"}'),
    )
    return calls


def test_an_event_with_data_is_returned_unchanged(read: list[Any]) -> None:
    form = THERE.to_json_dict()
    assert fetch(form) == THERE
    assert fetch({**form, "dataref": "https://elsewhere"}).payload == {"rows": 3}
    bare = Event.of("x", "/s", id="2")
    assert fetch(bare.to_json_dict()) == bare
    assert read == []


def test_a_dataref_is_read_with_the_given_connection_and_bus(read: list[Any]) -> None:
    assert fetch("kafka:t/0/1") == THERE
    assert fetch({"dataref": "kafka:t/0/2"}, kafka_conn_id="mine", bus="b") == THERE
    assert read == [("interlock", "kafka_default", "kafka:t/0/1"), ("b", "mine", "kafka:t/0/2")]


@pytest.mark.parametrize("changed", [{"id": "2"}, {"source": "/t"}])
def test_a_dataref_to_another_event_is_an_error(changed: dict[str, str]) -> None:
    form = {"id": "1", "source": "/s", "type": "x", "dataref": "kafka:t/0/1"}
    assert fetch(form) == THERE
    with pytest.raises(FetchError, match="kafka:t/0/1 contains event '1' of '/s', not"):
        fetch({**form, **changed})
