"""What is written for the subscriptions of a process."""

from __future__ import annotations

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.kafka.clients import ClientErrors
from interlock.engine.kafka.wait_clients import KafkaWriter
from interlock.engine.registry.registry import Registry
from interlock.engine.waiting.lease_writer import ProcessLeases
from interlock.engine.waiting.registration_writer import RegistrationWriter

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})


class Client:
    """A producer that keeps what it is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written: list[tuple[bytes, bytes | None]] = []
        monkeypatch.setattr("confluent_kafka.Producer", lambda _: self)

    def produce(
        self, topic: str, value: bytes | None, key: bytes, partition: int, on_delivery: object
    ) -> None:
        assert (topic, partition) == ("b-subscription", 0)
        self.written.append((key, value))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    return Client(monkeypatch)


def writer(leases: ProcessLeases) -> RegistrationWriter:
    return RegistrationWriter(CONFIG, KafkaWriter(CONFIG, ClientErrors()), leases)


def test_a_sink_record_is_written_under_the_name_of_its_subscription(client: Client) -> None:
    writer(ProcessLeases("p")).write_sink("one/deliver/d", b"{}", lambda why: pytest.fail(why))
    assert client.written == [(b"sink/one/deliver/d", b"{}")]


def test_a_writer_that_was_replaced_writes_no_lease_any_more(client: Client) -> None:
    leases = ProcessLeases("p")
    first, second = writer(leases), writer(leases)
    first.lease({"a"}, Registry())
    assert client.written == []
    second.lease({"a"}, Registry())
    assert [key for key, _ in client.written] == [b"lease/p/1", b"renewal/p"]
