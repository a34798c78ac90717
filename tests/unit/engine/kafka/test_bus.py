"""What the group's consumer returns, and the fence that belongs to it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError
from interlock.engine.bus import Batch, End, Record, TopicPartition
from interlock.engine.errors import LostRange, NotReadable, UnreachableError
from interlock.engine.kafka import bus as module
from interlock.engine.kafka import lost_brokers
from interlock.engine.kafka.bus import KafkaBus, consumer_settings

from .clients import CONFIG, FakeMessage, failure

HERE, THERE = TopicPartition("b-event", 0), TopicPartition("b-event", 1)


class FakeConsumer:
    """That of `bus`. `arrived`: the messages that the next poll finds; `serve`: callbacks served before."""

    bus: KafkaBus

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.arrived: list[FakeMessage] = []
        self.serve: list[str] = []
        self.fails: Exception | None = None
        self.subscriptions: list[list[str]] = []
        self.fetching: list[Any] = ["unset"]
        self.sought: list[tuple[str, int, int]] = []
        self.watermarks: tuple[int, int] | None = None
        self.generation = 1
        self.member: str | None = "m-1"
        self.in_group = self.closed = False

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self.subscriptions.append(topics)
        self.callbacks, self.in_group = callbacks, True

    def unsubscribe(self) -> None:
        self.in_group = False

    def consumer_group_metadata(self) -> bytes:
        return b"%d/%s" % (self.generation, (self.member or "").encode())

    def memberid(self) -> str | None:
        return self.member

    def assign(self, partitions: list[Any]) -> None:
        self.fetching = partitions

    def poll(self, timeout: float) -> FakeMessage | None:
        if self.fails:
            raise self.fails
        while self.serve:
            self.callbacks[self.serve.pop(0)](self, [HERE, THERE])
        return self.arrived.pop(0) if self.arrived else None

    def consume(self, most: int, timeout: float) -> list[FakeMessage]:
        taken, self.arrived = self.arrived[:most], self.arrived[most:]
        return taken

    def seek(self, partition: Any) -> None:
        if self.fails:
            raise self.fails
        self.sought.append((partition.topic, partition.partition, partition.offset))

    def get_watermark_offsets(self, partition: Any, *, cached: bool) -> tuple[int, int] | None:
        assert cached, "no request"
        if self.fails:
            raise self.fails
        return self.watermarks

    def list_topics(self, topic: str, timeout: float) -> None:
        raise failure(KafkaError._TRANSPORT)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> FakeConsumer:
    made: list[FakeConsumer] = []

    def connect(kind: object, config: object, errors: object, **own: Any) -> FakeConsumer:
        made.append(FakeConsumer(own))
        return made[-1]

    class Nothing:
        def __init__(self, *_: object) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr(module, "connect", connect)
    monkeypatch.setattr(module, "Admin", Nothing)
    monkeypatch.setattr(module, "Transactions", Nothing)
    bus = KafkaBus(CONFIG)
    bus.subscribe(["b-trigger", "b-event"])
    made[0].bus = bus
    return made[0]


def poll(consumer: FakeConsumer) -> Batch:
    return consumer.bus.poll(100, 0)


def error(code: int, offset: int = 0, partition: int = 0) -> FakeMessage:
    return FakeMessage(partition=partition, offset=offset, error=failure(code).args[0])


def assigned(consumer: FakeConsumer) -> Batch:
    consumer.serve = ["on_assign"]
    return poll(consumer)


def test_the_clients_settings_are_those_the_protocols_need(consumer: FakeConsumer) -> None:
    settings = {key: value for key, value in consumer.settings.items() if key != "client_id"}
    assert settings == {
        "group_id": "b-engine",
        "group_protocol": "classic",
        "partition_assignment_strategy": "range",
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 500,
        "max_poll_interval_ms": 45_000,
        "enable_auto_commit": False,
        "enable_auto_offset_store": False,
        "isolation_level": "read_committed",
        "auto_offset_reset": "error",
        "enable_partition_eof": True,
        "topic_metadata_refresh_interval_ms": 5000,
        "queued_max_messages_kbytes": 16384,
        "fetch_queue_backoff_ms": 10,
        "fetch_wait_max_ms": 10,
        "fetch_min_bytes": 100_000,
    }
    assert consumer.settings["client_id"] == consumer.bus.transactional_id
    assert consumer.bus.transactional_id.startswith("b-engine-")


def test_subscribing_to_the_same_topics_again_does_not_rebalance_the_group(consumer: FakeConsumer) -> None:
    consumer.bus.subscribe(["b-event", "b-trigger"])
    assert len(consumer.subscriptions) == 1
    consumer.bus.subscribe(["b-event", "b-trigger", "orders"])
    assert consumer.subscriptions[-1] == ["b-event", "b-trigger", "orders"]


def test_nothing_is_fetched_before_the_assigned_partitions_are_started(consumer: FakeConsumer) -> None:
    batch = assigned(consumer)
    assert (batch.assigned, batch.lost) == ((HERE, THERE), False)
    assert consumer.fetching == []
    consumer.bus.start({HERE: 7})
    assert [(p.topic, p.partition, p.offset) for p in consumer.fetching] == [("b-event", 0, 7)]


@pytest.mark.parametrize("served", [["on_assign"], ["on_revoke"], ["on_lost"], ["on_revoke", "on_assign"]])
def test_a_poll_with_a_change_of_the_assignment_has_no_records(
    consumer: FakeConsumer, served: list[str]
) -> None:
    assigned(consumer)
    consumer.serve = list(served)
    consumer.arrived = [FakeMessage(), FakeMessage(offset=1)]
    batch = poll(consumer)
    assert batch.records == ()
    assert batch.lost == (served[0] != "on_assign")
    assert batch.assigned == ((HERE, THERE) if "on_assign" in served else None)


def test_the_membership_is_that_of_the_assignment_whatever_the_client_learns_in_the_background(
    consumer: FakeConsumer,
) -> None:
    assert assigned(consumer).membership == b"1/m-1"
    consumer.generation, consumer.member = -1, "m-2"
    consumer.arrived = [FakeMessage()]
    batch = poll(consumer)
    assert len(batch.records) == 1
    assert batch.membership == b"1/m-1"


def test_there_is_no_membership_before_an_assignment_nor_after_its_loss(consumer: FakeConsumer) -> None:
    assert poll(consumer).membership is None
    assigned(consumer)
    consumer.serve = ["on_lost"]
    assert poll(consumer).membership is None
    assert poll(consumer).membership is None
    consumer.generation = 2
    assert assigned(consumer).membership == b"2/m-1"


def test_an_assignment_to_a_member_without_an_id_has_no_membership(consumer: FakeConsumer) -> None:
    consumer.member = None
    assert assigned(consumer).membership is None


def test_records_and_ends_come_in_the_order_of_the_log(consumer: FakeConsumer) -> None:
    assigned(consumer)
    consumer.arrived = [FakeMessage(offset=3), error(KafkaError._PARTITION_EOF, 5), FakeMessage(partition=1)]
    assert list(poll(consumer).records) == [
        Record(HERE, 3, 77, b"key", b"value", None),
        End(HERE, 5),
        Record(THERE, 0, 77, b"key", b"value", None),
    ]


def test_a_lost_range_names_its_partition_and_no_record_polled_with_it_is_lost(
    consumer: FakeConsumer,
) -> None:
    assigned(consumer)
    consumer.arrived = [FakeMessage(partition=1), error(KafkaError._AUTO_OFFSET_RESET), FakeMessage(offset=9)]
    assert [record.offset for record in poll(consumer).records if isinstance(record, Record)] == [0, 9]
    with pytest.raises(LostRange, match=r"b-event\[0\]") as caught:
        poll(consumer)
    assert caught.value.partition == HERE
    assert list(poll(consumer).records) == []


def test_a_partition_that_is_fetched_from_another_offset_is_not_out_of_range_any_more(
    consumer: FakeConsumer,
) -> None:
    """Behind the offset that a malformed record claims."""
    assigned(consumer)
    ends = [error(KafkaError._AUTO_OFFSET_RESET), error(KafkaError._AUTO_OFFSET_RESET, partition=1)]
    consumer.arrived = [FakeMessage(), *ends]
    poll(consumer)
    assert consumer.bus.seek(HERE, 7)
    assert consumer.sought == [(*HERE, 7)]
    with pytest.raises(LostRange, match=r"b-event\[1\]"):
        poll(consumer)
    assert list(poll(consumer).records) == []


def test_a_client_that_does_not_fetch_a_partition_says_that_it_cannot_seek(consumer: FakeConsumer) -> None:
    assigned(consumer)
    consumer.fails = failure(KafkaError._STATE)
    assert not consumer.bus.seek(HERE, 7)


@pytest.mark.parametrize(
    ("watermarks", "end"), [((3, 9), 9), ((-1001, -1001), 0), (None, 0)], ids=["known", "unknown", "none"]
)
def test_the_end_of_a_partition_is_known_from_its_fetches(
    consumer: FakeConsumer, watermarks: tuple[int, int] | None, end: int
) -> None:
    consumer.watermarks = watermarks
    assert consumer.bus.fetched_end(HERE) == end


def test_the_end_of_a_partition_that_is_not_fetched_is_unknown(consumer: FakeConsumer) -> None:
    consumer.fails = failure(KafkaError._UNKNOWN_PARTITION)
    assert consumer.bus.fetched_end(HERE) == 0


def test_a_new_assignment_drops_the_troubles_of_the_old_one(consumer: FakeConsumer) -> None:
    assigned(consumer)
    consumer.arrived = [FakeMessage(), error(KafkaError._AUTO_OFFSET_RESET)]
    poll(consumer)
    consumer.bus._on_gone(consumer, [])
    assert poll(consumer).lost


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._TRANSPORT,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    ],
)
def test_what_passes_by_itself_or_concerns_one_topic_stops_nothing(consumer: FakeConsumer, code: int) -> None:
    assigned(consumer)
    consumer.arrived = [error(code), FakeMessage()]
    assert len(poll(consumer).records) == 1
    assert list(poll(consumer).records) == []


def test_any_other_error_of_the_consumer_asks_for_a_new_bus(consumer: FakeConsumer) -> None:
    assigned(consumer)
    consumer.arrived = [FakeMessage(topic="", error=failure(KafkaError.GROUP_AUTHORIZATION_FAILED).args[0])]
    with pytest.raises(UnreachableError, match="why") as raised:
        poll(consumer)
    assert not isinstance(raised.value, NotReadable)
    consumer.fails = failure(KafkaError._FATAL, fatal=True)
    with pytest.raises(UnreachableError):
        poll(consumer)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError._BAD_MSG,
        KafkaError._BAD_COMPRESSION,
        KafkaError.INVALID_MSG,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.UNKNOWN,
    ],
)
def test_a_topic_that_cannot_be_read_is_named_after_what_came_of_others(
    consumer: FakeConsumer, code: int
) -> None:
    """A damaged batch of one listed topic ended engine after engine (confluentinc/librdkafka#2993)."""
    assigned(consumer)
    consumer.arrived = [error(code), FakeMessage(partition=1)]
    assert len(poll(consumer).records) == 1
    with pytest.raises(NotReadable, match=r"b-event\[0\]") as refused:
        poll(consumer)
    assert refused.value.topic == "b-event"


@pytest.mark.parametrize(("served", "asked"), [("on_revoke", [b"1/m-1"]), ("on_lost", [])])
def test_a_member_is_asked_before_a_rebalance_but_not_when_it_is_excluded(
    consumer: FakeConsumer, served: str, asked: list[bytes]
) -> None:
    calls: list[object] = []
    consumer.bus.subscribe(["b-event", "b-trigger"], calls.append)
    assigned(consumer)
    consumer.serve = [served]
    assert poll(consumer).lost
    assert calls == asked


def test_an_error_of_what_a_member_does_before_a_rebalance_ends_its_assignment_all_the_same(
    consumer: FakeConsumer,
) -> None:
    def fails(_: object) -> None:
        raise UnreachableError("no answer")

    consumer.bus.subscribe(["b-event", "b-trigger"], fails)
    assigned(consumer)
    consumer.serve = ["on_revoke"]
    with pytest.raises(UnreachableError, match="no answer"):
        poll(consumer)
    assert poll(consumer).lost


def test_an_engine_gathers_records_and_a_deliverer_gets_each_firing_at_once() -> None:
    engines, deliverers = consumer_settings(CONFIG), consumer_settings(CONFIG.of_deliverers)
    differing = {name for name in engines if engines[name] != deliverers[name]}
    assert differing == {"fetch_min_bytes", "fetch_wait_max_ms"}
    assert (deliverers["fetch_min_bytes"], deliverers["fetch_wait_max_ms"]) == (1, 50)


def test_a_bus_that_is_closed_leaves_the_group_and_serves_what_waits_before_the_client_is_closed(
    consumer: FakeConsumer,
) -> None:
    consumer.serve = ["on_assign", "on_revoke"]
    consumer.arrived = [FakeMessage(), error(KafkaError._PARTITION_EOF)]
    consumer.bus.close()
    assert (consumer.in_group, consumer.closed, consumer.serve, consumer.arrived) == (False, True, [], [])


def test_a_client_that_fails_while_it_leaves_the_group_is_closed_all_the_same(consumer: FakeConsumer) -> None:
    consumer.fails = failure(KafkaError._FATAL, fatal=True)
    consumer.bus.close()
    assert consumer.closed


def test_a_poll_reports_that_the_consumer_has_lost_its_brokers(
    consumer: FakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic() + lost_brokers.SILENT_S
    monkeypatch.setattr(lost_brokers.time, "monotonic", lambda: now)
    monkeypatch.setattr(lost_brokers, "require_answer", lambda *_: None)
    with pytest.raises(UnreachableError, match="has lost its brokers"):
        poll(consumer)
