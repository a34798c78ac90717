"""A reader that leaves out records: what it returns, and that it does not look silent meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from interlock.engine.bus import End, Record, TopicPartition
from interlock.engine.kafka import reader as module
from interlock.engine.kafka.chosen import ChosenReader
from interlock.engine.kafka.clients import ClientErrors

from .clients import CONFIG, FakeMessage


class Keyed(FakeMessage):
    def __init__(self, offset: int, key: bytes) -> None:
        super().__init__(offset=offset)
        self._key = key

    def key(self) -> bytes:
        return self._key


class AtEnd(FakeMessage):
    """What a client reports at the end of a partition."""

    def error(self) -> Any:
        return self

    def code(self) -> int:
        return -191

    _PARTITION_EOF = -191


class Consumer:
    def __init__(self, messages: list[FakeMessage]) -> None:
        self._left = messages

    def poll(self, _: float) -> FakeMessage | None:
        return self._left.pop(0) if self._left else None

    def consume(self, most: int, _: float) -> list[FakeMessage]:
        taken, self._left = self._left[:most], self._left[most:]
        return taken


def test_it_returns_the_records_that_are_wanted_and_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    unwanted: list[FakeMessage] = [Keyed(offset, b"b") for offset in range(100)]
    messages = [*unwanted, Keyed(100, b"a"), *unwanted, AtEnd(offset=300)]
    monkeypatch.setattr(module, "connect", lambda *_, **__: Consumer(messages))
    reader = ChosenReader(CONFIG, ClientErrors(), lambda key, value: (key, value) == (b"a", b"value"))
    taken: list[Record | End] = []
    while found := reader.take(10, 0):  # it returns nothing only where nothing has arrived
        taken += found
    assert [(each.source, each.offset) for each in taken] == [
        (TopicPartition("b-event", 0), 100),
        (TopicPartition("b-event", 0), 300),
    ]
    assert reader.take(10, 0) == []
