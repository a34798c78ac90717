"""What waits use of Kafka: errors of a writer, and why a cluster does not answer, on a producer of a test."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from interlock.engine.bus import TOO_LARGE, Output
from interlock.engine.errors import NoRoom, NotSent, UnreachableError
from interlock.engine.kafka.wait_clients import KafkaClients, KafkaWriter
from interlock.engine.records.sizes import MAX_INTERNAL_BYTES

from tests.unit.engine.kafka.clients import CONFIG, failure

RECORD = Output("b-subscription", 0, b"k", b"v")


class Producer:
    """`fails`: what the next calls raise. `delivery_error`: with which the records are reported.

    `topic_error`: of each topic's description.
    """

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.fails: list[BaseException] = []
        self.delivery_error: KafkaError | None = None
        self.topic_error: KafkaError | None = None
        self._reports: list[Any] = []

    def __call__(self, settings: dict[str, Any]) -> Producer:
        self.settings = settings
        return self

    def _called(self) -> None:
        if self.fails:
            raise self.fails.pop(0)

    def produce(self, topic: str, value: Any, key: Any, partition: int, on_delivery: Any) -> None:
        self._called()
        if on_delivery is not None:
            self._reports.append(on_delivery)

    def poll(self, timeout_s: float) -> None:
        self._called()
        while self._reports:
            self._reports.pop()(self.delivery_error, None)

    def flush(self, timeout_s: float) -> int:
        self.poll(timeout_s)
        return 0

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        self._called()
        partitions = [] if self.topic_error else [0, 1]
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=partitions, error=self.topic_error)})


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    made = Producer()
    monkeypatch.setattr("confluent_kafka.Producer", made)
    return made


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (BufferError("full"), NoRoom),
        (failure(KafkaError.MSG_SIZE_TOO_LARGE), NotSent),
        (failure(KafkaError._FATAL, fatal=True), UnreachableError),
        (failure(KafkaError._FATAL), UnreachableError),  # as the client raises it after a fatal error
    ],
)
def test_a_record_that_is_not_taken_says_what_the_writer_is_still_good_for(
    producer: Producer, raised: BaseException, error: type[Exception]
) -> None:
    writer = KafkaClients(CONFIG).writer()
    producer.fails = [raised]
    with pytest.raises(error) as caught:
        writer.write(RECORD)
    assert type(caught.value) is error


def behind_a_callback(error: BaseException) -> SystemError:
    """As the client raises an error while a callback runs."""
    found = SystemError("returned a result with an exception set")
    found.__cause__ = error
    return found


FORBIDDEN = failure(KafkaError.CLUSTER_AUTHORIZATION_FAILED, fatal=True, reason="not allowed")
FENCED = failure(KafkaError.INVALID_PRODUCER_EPOCH, fatal=True, reason="fenced")


@pytest.mark.parametrize("call", [KafkaWriter.serve, KafkaWriter.flush])
@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (FORBIDDEN, "not allowed. Allow this connection's user to write"),
        (behind_a_callback(FORBIDDEN), "not allowed. Allow this connection's user to write"),
        (FENCED, "fenced"),
        (behind_a_callback(FENCED), "fenced"),
        (behind_a_callback(ValueError("odd")), "odd"),
    ],
)
def test_a_fatal_error_that_comes_after_the_record_was_taken_says_what_to_do(
    producer: Producer, call: Callable[[KafkaWriter, float], object], raised: BaseException, says: str
) -> None:
    writer = KafkaClients(CONFIG).writer()
    writer.write(RECORD)
    producer.fails = [raised]
    with pytest.raises(UnreachableError, match=says):
        call(writer, 1.0)


@pytest.mark.parametrize("delivery_error", [None, KafkaError(KafkaError._MSG_TIMED_OUT, "too late")])
def test_the_outcome_of_a_record_is_reported_by_a_later_call(
    producer: Producer, delivery_error: KafkaError | None
) -> None:
    writer, reports = KafkaClients(CONFIG).writer(), []
    producer.delivery_error = delivery_error
    writer.write(RECORD, reports.append)
    assert reports == []
    writer.serve()
    assert reports == [None if delivery_error is None else "too late"]


def test_a_cluster_that_does_not_answer_is_an_error_with_its_reason(producer: Producer) -> None:
    writer = KafkaClients(CONFIG).writer()
    assert writer.partitions("b-action", 1.0) == 2
    producer.fails = [failure(KafkaError._TRANSPORT, reason="it is gone")]
    with pytest.raises(UnreachableError, match="it is gone"):
        writer.partitions("b-action", 1.0)


def test_a_topic_that_brokers_refuse_to_describe_is_not_a_missing_one(producer: Producer) -> None:
    writer = KafkaClients(CONFIG).writer()
    producer.topic_error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert writer.partitions("b-action", 1.0) == 0
    producer.topic_error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed")
    with pytest.raises(UnreachableError, match="Topic authorization failed"):
        writer.partitions("b-action", 1.0)


def test_an_answer_without_the_topic_is_an_error_with_its_reason(producer: Producer) -> None:
    writer = KafkaClients(CONFIG).writer()
    producer.list_topics = lambda *_, **__: SimpleNamespace(topics={})  # type: ignore[method-assign]
    with pytest.raises(UnreachableError, match="does not name the topic 'b-action'"):
        writer.partitions("b-action", 1.0)


def test_clients_complain_until_the_cluster_answers(producer: Producer) -> None:
    clients = KafkaClients(CONFIG)
    writer = clients.writer()
    assert not clients.has_error
    producer.settings["error_cb"](KafkaError(KafkaError._RESOLVE, "no such host"))
    assert clients.has_error
    producer.fails = [failure(KafkaError._TRANSPORT)]
    assert "no such host" in (writer.outage() or "")
    assert clients.has_error
    assert writer.outage() is None
    assert not clients.has_error


def test_records_of_a_task_are_dropped_after_its_timeout(producer: Producer) -> None:
    KafkaClients(CONFIG).writer(2.5)
    assert producer.settings["delivery.timeout.ms"] == 2500
    assert (producer.settings["acks"], producer.settings["enable.idempotence"]) == ("all", True)


def test_a_writer_accepts_what_the_topics_accept_and_reports_a_record_that_is_too_large(
    producer: Producer,
) -> None:
    writer, reports = KafkaClients(CONFIG).writer(), []
    assert producer.settings["message.max.bytes"] == MAX_INTERNAL_BYTES
    producer.delivery_error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large")
    writer.write(RECORD, reports.append)
    writer.serve()
    assert reports == [TOO_LARGE]


def test_readers_of_waits_get_a_firing_at_once_and_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr("confluent_kafka.Consumer", made.append)
    KafkaClients(CONFIG).reader()
    [settings] = made
    assert settings["fetch.min.bytes"] == 1
    assert settings["fetch.wait.max.ms"] == 50
    assert settings["isolation.level"] == "read_committed"
