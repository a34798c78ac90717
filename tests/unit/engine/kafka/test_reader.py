"""How a consumed message becomes a record, also where the client cannot unpack it."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.errors import NotReadable, UnreachableError
from interlock.engine.kafka import reader as module
from interlock.engine.kafka.reader import (
    FIRST_CHUNK,
    MOST_CHUNK,
    TAKEN_BYTES,
    KafkaReader,
    Messages,
    consume,
    record,
)
from msgspec.structs import astuple

from .clients import CONFIG, FakeMessage, failure


class Damaged(FakeMessage):
    """A message of which one part raises, as the client does; read again, the part would end the process."""

    def __init__(self, part: str) -> None:
        super().__init__(offset=7)
        self.reads = 0
        setattr(self, part, self._raise)

    def _raise(self) -> Any:
        self.reads += 1
        assert self.reads == 1
        try:
            b"\xff".decode()
        except UnicodeDecodeError as e:
            raise SystemError("returned a result with an exception set") from e


def test_a_message_becomes_a_record_without_a_fault() -> None:
    assert record(FakeMessage(offset=7)) == Record(  # type: ignore[arg-type]
        TopicPartition("b-event", 0), 7, 77, b"key", b"value", None, ""
    )


@pytest.mark.parametrize(
    ("part", "named", "rest"),
    [
        ("timestamp", "timestamp, key or value", (-1, None, None, None)),
        ("key", "timestamp, key or value", (-1, None, None, None)),
        ("value", "timestamp, key or value", (-1, None, None, None)),
        ("headers", "headers", (77, b"key", b"value", None)),
    ],
)
def test_a_part_that_the_client_cannot_unpack_is_the_fault_of_the_record(
    part: str, named: str, rest: Any
) -> None:
    found = record(Damaged(part))  # type: ignore[arg-type]
    assert astuple(found)[:6] == (TopicPartition("b-event", 0), 7, *rest)
    assert found.fault.startswith(f"the Kafka client cannot read its {named}: UnicodeDecodeError(")


def test_the_messages_after_a_damaged_one_are_read() -> None:
    items = [FakeMessage(offset=6), Damaged("headers"), FakeMessage(offset=8)]
    read = [(each.offset, bool(each.fault)) for each in Messages(items) if isinstance(each, Record)]  # type: ignore[arg-type]
    assert read == [(6, False), (7, True), (8, False)]


class Unpacked:
    """A consumer whose client has unpacked a batch of messages with values of 1 MiB."""

    def __init__(
        self, count: int, value: bytes = b"\0" * 2**20, headers: Any = None, key: bytes = b""
    ) -> None:
        self.left = [Large(n, value, headers, key) for n in range(count)]
        self.asked: list[int] = []

    def poll(self, timeout_s: float) -> Large | None:
        return self.left.pop(0) if self.left else None

    def consume(self, most: int, timeout_s: float) -> list[Large]:
        self.asked.append(most)
        taken, self.left = self.left[:most], self.left[most:]
        return taken


class Large(FakeMessage):
    def __init__(self, offset: int, value: bytes, headers: Any, key: bytes) -> None:
        super().__init__(offset=offset)
        self._value, self._headers, self._key = value, headers, key

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value

    def headers(self) -> Any:
        return self._headers


def test_a_batch_that_unpacks_to_hundreds_of_megabytes_is_not_held_as_a_whole() -> None:
    """A gzip batch of 800 x 1 MB of zeros."""
    consumer = Unpacked(800)
    taken = consume(consumer, 10_000, 0)  # type: ignore[arg-type]
    assert len(taken) == TAKEN_BYTES // 2**20
    assert max(consumer.asked) == 1


MIB = b"\0" * 2**20
HIDDEN = [
    pytest.param({"headers": [("ce_note", MIB)]}, id="a header"),
    pytest.param({"headers": [("n" * 2**20, b"")]}, id="a name of a header"),
    pytest.param({"headers": [("", b"")] * 2**14}, id="many empty headers"),
    pytest.param({"key": MIB}, id="a key"),
]


@pytest.mark.parametrize("hidden", HIDDEN)
def test_what_messages_hold_beside_their_values_is_counted_too(hidden: dict[str, Any]) -> None:
    """Headers and keys of 1 MB in a gzip batch: the length of a message is that of its value."""
    consumer = Unpacked(800, b"", **hidden)
    taken = consume(consumer, 10_000, 0)  # type: ignore[arg-type]
    assert len(taken) == TAKEN_BYTES // 2**20
    assert max(consumer.asked) == 1


@pytest.mark.parametrize("every", [2, 10])
def test_few_large_headers_among_small_messages_are_noticed(every: int) -> None:
    consumer = Unpacked(10_000, b"")
    for n in range(0, 10_000, every):
        consumer.left[n]._headers = [("ce_note", MIB)]
    taken = consume(consumer, 10_000, 0)  # type: ignore[arg-type]
    assert sum(each.headers() is not None for each in taken) < 100 + 10 * MOST_CHUNK


def test_the_headers_of_a_damaged_message_that_is_counted_are_read_once() -> None:
    consumer = Unpacked(0)
    consumer.left = [Damaged("headers")]  # type: ignore[list-item]
    [found] = Messages(consume(consumer, 10, 0))  # type: ignore[arg-type]
    assert isinstance(found, Record)
    assert found.fault.startswith("the Kafka client cannot read its headers: UnicodeDecodeError(")
    assert astuple(found)[2:6] == (77, b"key", b"value", None)


def test_large_messages_behind_small_ones_are_held_in_a_small_chunk_at_most_before_they_are_counted() -> None:
    consumer = Unpacked(300, b"v")
    consumer.left += Unpacked(800).left
    taken = consume(consumer, 10_000, 0)  # type: ignore[arg-type]
    assert len(taken) - 300 <= TAKEN_BYTES // 2**20 + MOST_CHUNK


def test_large_messages_make_the_next_chunk_a_small_one_again() -> None:
    consumer = Unpacked(2 * MOST_CHUNK, b"v")
    consumer.left[40:42] = Unpacked(2).left
    consume(consumer, 10_000, 0)  # type: ignore[arg-type]
    at = consumer.asked.index(1)
    assert at > 0
    assert consumer.asked[at : at + 3] == [1, 2, 4]


@pytest.mark.parametrize("count", [0, 1, FIRST_CHUNK, MOST_CHUNK, MOST_CHUNK + 1, MOST_CHUNK + 2, 1000])
@pytest.mark.parametrize("most", [1, 2, MOST_CHUNK, MOST_CHUNK + 1, 500])
def test_small_messages_are_taken_up_to_the_limit_without_waiting_for_more(count: int, most: int) -> None:
    consumer = Unpacked(count, b"v")
    assert [each.offset() for each in consume(consumer, most, 0)] == [*range(min(count, most))]  # type: ignore[arg-type]
    assert sum(consumer.asked) <= max(0, most - 1)


def test_small_messages_are_taken_in_few_calls() -> None:
    consumer = Unpacked(10_000, b"v")
    consume(consumer, 10_000, 0)  # type: ignore[arg-type]
    assert len(consumer.asked) <= 10_000 // MOST_CHUNK + 5


@pytest.mark.parametrize(
    ("value", "headers", "most"),
    [
        pytest.param(b"\0" * 2**20, None, 16, id="values"),
        pytest.param(b"", [("ce_note", b"x" * 2**20)], 16, id="headers"),
    ],
)
def test_a_reader_hands_over_a_bounded_share_too(
    value: bytes, headers: Any, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = Unpacked(800, value, headers)
    monkeypatch.setattr(module, "connect", lambda *_, **__: messages)
    reader = KafkaReader(CONFIG)
    taken = reader.take(5000, 0)
    assert TAKEN_BYTES // 2**20 <= len(taken) <= most + MOST_CHUNK
    assert len(messages.left) == 800 - len(taken)


@pytest.mark.parametrize(
    ("code", "topic", "expected"),
    [
        (KafkaError._BAD_MSG, "orders", NotReadable),
        (KafkaError.UNKNOWN, "orders", NotReadable),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "orders", NotReadable),
        (KafkaError._AUTHENTICATION, "", UnreachableError),
        (KafkaError._TRANSPORT, "orders", None),
    ],
)
def test_an_error_of_one_partition_names_its_topic(
    code: int, topic: str, expected: type[Exception] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look-back of a topic with a damaged batch ended the engine (confluentinc/librdkafka#2993)."""
    messages = Unpacked(0)
    messages.left = [FakeMessage(topic, 3, error=failure(code).args[0])]  # type: ignore[list-item]
    monkeypatch.setattr(module, "connect", lambda *_, **__: messages)
    reader = KafkaReader(CONFIG)
    if expected is None:
        assert reader.take(10, 0) == []
        return
    with pytest.raises(expected) as raised:
        reader.take(10, 0)
    assert type(raised.value) is expected
    assert topic == "" or str(raised.value) == "Reading orders[3]: why."
