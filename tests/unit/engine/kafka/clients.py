"""Fakes of librdkafka's clients that a test controls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException
from interlock.engine.config import BusConfig
from interlock.engine.kafka import transactions

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})


def failure(
    code: int, *, retriable: bool = False, abort: bool = False, fatal: bool = False, reason: str = "why"
) -> KafkaException:
    return KafkaException(KafkaError(code, reason, fatal, retriable, abort))


class FakeMessage:
    def __init__(
        self,
        topic: str = "b-event",
        partition: int = 0,
        offset: int = 0,
        error: KafkaError | None = None,
        time: tuple[int, int] = (TIMESTAMP_LOG_APPEND_TIME, 77),
    ) -> None:
        self._topic, self._partition, self._offset = topic, partition, offset
        self._error, self._time = error, time

    def __len__(self) -> int:
        return len(self.value())

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return self._time

    def key(self) -> bytes:
        return b"key"

    def value(self) -> bytes:
        return b"value"

    def headers(self) -> None:
        return None


class FakeProducer:
    """`calls` are the names of what was called; `fails[name]` holds what each next call of it raises.

    `on_poll`: called by the next poll, as a client delivers its log lines then.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.calls: list[str] = []
        self.fails: dict[str, list[BaseException]] = {}
        self.on_poll: list[Callable[[], None]] = []
        self.reports: list[tuple[str, Callable[..., None]]] = []
        self.report_time = (TIMESTAMP_LOG_APPEND_TIME, 77)

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.fails.get(name):
            raise self.fails[name].pop(0)

    def init_transactions(self, timeout: float) -> None:
        self._called("init")

    def begin_transaction(self) -> None:
        self._called("begin")

    def produce(
        self, topic: str, *_: object, on_delivery: Callable[..., None] | None = None, **__: object
    ) -> None:
        self._called("produce")
        if on_delivery is not None:
            self.reports.append((topic, on_delivery))

    def poll(self, timeout: float) -> None:
        self._called("poll")
        while self.on_poll:
            self.on_poll.pop(0)()

    def send_offsets_to_transaction(self, offsets: object, membership: object, timeout: float) -> None:
        self._called("offsets")

    def commit_transaction(self, timeout: float) -> None:
        self._called("commit")
        for topic, report in self.reports:
            report(None, FakeMessage(topic, time=self.report_time))

    def abort_transaction(self, timeout: float) -> None:
        self._called("abort")

    def purge(self) -> None:
        self._called("purge")

    def close(self) -> None:
        self._called("close")


def fake_producers(monkeypatch: pytest.MonkeyPatch) -> list[FakeProducer]:
    """The producers that `Transactions` makes from now on, in their order."""
    producers: list[FakeProducer] = []

    def connect(kind: object, config: object, errors: object, **own: Any) -> FakeProducer:
        producers.append(FakeProducer(own))
        return producers[-1]

    monkeypatch.setattr(transactions, "connect", connect)
    return producers
