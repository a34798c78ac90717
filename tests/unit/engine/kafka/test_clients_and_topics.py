"""What Kafka clients ask brokers about topics, and answers that are about others."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from interlock.engine.config import BusConfig
from interlock.engine.errors import UnreachableError
from interlock.engine.kafka import probe
from interlock.engine.kafka.admin import Admin
from interlock.engine.kafka.clients import ClientErrors, connect
from interlock.engine.kafka.topics import _partition_counts
from interlock.events import Event
from interlock.events.emitter import Emitter
from interlock.events.errors import EmitError

from tests.unit.engine.kafka.fenced_broker import broker_without_topics


def at(servers: str) -> BusConfig:
    return BusConfig(name="b", client={"bootstrap.servers": servers})


@pytest.mark.parametrize("kind", [Producer, AdminClient, Consumer])
def test_no_client_lets_a_broker_create_a_topic_that_it_names(kind: Any) -> None:
    """A topic of the bus would have the brokers' settings: one partition, and the producers' timestamps."""
    creatable: list[str] = []
    with broker_without_topics(creatable) as servers:
        more = {"group_id": "g"} if kind is Consumer else {}
        client = connect(kind, at(servers), ClientErrors(), **more)
        assert "b-subscription" in client.list_topics("b-subscription", timeout=5).topics
        if kind is Producer:
            client.produce("b-event", b"x")
            client.flush(0.2)
    assert creatable == []


def test_no_emitter_lets_a_broker_create_the_topic() -> None:
    creatable: list[str] = []
    with broker_without_topics(creatable) as servers:
        emitter = Emitter({"bootstrap.servers": servers}, "b-event")
        with pytest.raises(EmitError):
            emitter.emit(Event.of("a", "/a"), timeout_s=1)
    assert creatable == []


def test_an_answer_without_the_topic_that_was_asked_for_is_an_error_with_its_reason() -> None:
    """It was a RuntimeError of confluent_kafka, which ended the engine's loop."""
    with broker_without_topics(answers=False) as servers:
        config = at(servers)
        admin = Admin(config)  # some answer came
        with pytest.raises(UnreachableError, match="Results length 0"):
            admin.topics(["b-event"])
        assert "Results length 0" in str(probe.allowed(config, ["b-event"])["b-event"])
        client = connect(AdminClient, config, ClientErrors())
        with pytest.raises(UnreachableError, match="describes other topics than those it was asked"):
            _partition_counts(client, config, ["b-event"])
