"""How a consumed message becomes a record, also where the client cannot unpack it."""

from __future__ import annotations

from typing import Any

import pytest
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.kafka.reader import CHUNK, TAKEN_BYTES, KafkaReader, Messages, consume, record

from .clients import FakeMessage


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
    ("part", "said", "rest"),
    [
        ("timestamp", "timestamp, key or value", (-1, None, None, None)),
        ("key", "timestamp, key or value", (-1, None, None, None)),
        ("value", "timestamp, key or value", (-1, None, None, None)),
        ("headers", "headers", (77, b"key", b"value", None)),
    ],
)
def test_a_part_that_the_client_cannot_unpack_is_the_fault_of_the_record(
    part: str, said: str, rest: Any
) -> None:
    found = record(Damaged(part))  # type: ignore[arg-type]
    assert found[:6] == (TopicPartition("b-event", 0), 7, *rest)
    assert found.fault.startswith(f"the Kafka client cannot read its {said}: UnicodeDecodeError(")


def test_the_messages_after_a_damaged_one_are_read() -> None:
    items = [FakeMessage(offset=6), Damaged("headers"), FakeMessage(offset=8)]
    read = [(each.offset, bool(each.fault)) for each in Messages(items) if isinstance(each, Record)]  # type: ignore[arg-type]
    assert read == [(6, False), (7, True), (8, False)]


class Unpacked:
    """A consumer whose client has unpacked a batch of messages with values of 1 MiB."""

    def __init__(self, count: int, value: bytes = b"\0" * 2**20, headers: Any = None) -> None:
        self.left = [Large(n, value, headers) for n in range(count)]
        self.asked: list[int] = []

    def poll(self, timeout_s: float) -> Large | None:
        return self.left.pop(0) if self.left else None

    def consume(self, most: int, timeout_s: float) -> list[Large]:
        self.asked.append(most)
        taken, self.left = self.left[:most], self.left[most:]
        return taken


class Large(FakeMessage):
    def __init__(self, offset: int, value: bytes, headers: Any) -> None:
        super().__init__(offset=offset)
        self._value, self._headers = value, headers

    def value(self) -> bytes:
        return self._value

    def headers(self) -> Any:
        return self._headers


def test_a_batch_that_unpacks_to_hundreds_of_megabytes_is_not_held_as_a_whole() -> None:
    """A gzip batch of 800 x 1 MB of zeros."""
    consumer = Unpacked(800)
    taken = consume(consumer, 10_000, 0)  # type: ignore[arg-type]
    assert len(taken) == 1 + CHUNK
    assert sum(map(len, taken)) < TAKEN_BYTES + (1 + CHUNK) * 2**20


@pytest.mark.parametrize("count", [0, 1, CHUNK, CHUNK + 1, CHUNK + 2, 1000])
@pytest.mark.parametrize("most", [1, 2, CHUNK, CHUNK + 1, 500])
def test_small_messages_are_taken_up_to_the_limit_without_waiting_for_more(count: int, most: int) -> None:
    consumer = Unpacked(count, b"v")
    assert [each.offset() for each in consume(consumer, most, 0)] == [*range(min(count, most))]  # type: ignore[arg-type]
    assert sum(consumer.asked) <= max(0, most - 1)


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(Unpacked(800), id="values"),
        pytest.param(Unpacked(800, b"", [("ce_note", b"x" * 2**20)]), id="headers"),
    ],
)
def test_a_reader_hands_over_a_bounded_share_too(messages: Unpacked) -> None:
    reader = KafkaReader.__new__(KafkaReader)
    reader._consumer = messages  # type: ignore[assignment]
    assert len(reader.take(5000, 0)) == 1 + CHUNK
    assert len(messages.left) == 800 - 1 - CHUNK
