"""How a consumed message becomes a record, also where the client cannot unpack it."""

from __future__ import annotations

from typing import Any

import pytest
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.kafka.reader import Messages, record

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
