"""A deliverer over brokers in memory, and posts that a test answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock.engine.bus import Batch, Committed, Output, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.delivery.answers import Answer
from interlock.engine.delivery.context import DelivererContext, DelivererEnvironment
from interlock.engine.delivery.deliverer import Deliverer
from interlock.engine.delivery.parts import PARTS, DelivererParts
from interlock.engine.delivery.posts import Delivery, Ended
from interlock.engine.delivery.retry import Retry
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.errors import TransactionAborted, UnreachableError
from interlock.engine.records import encode_json

from tests.kit.bus import Alone, SimulatedBus
from tests.kit.kafka import Cluster
from tests.unit.engine.delivery.firings import SINK, TP, action

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
HOUR_MS = 3_600_000


class Posts:
    """Notes what is sent; a test answers."""

    def __init__(self) -> None:
        self.sent: list[Delivery] = []
        self.answers: list[Ended] = []

    def start(self, delivery: Delivery) -> None:
        self.sent.append(delivery)

    def ended(self) -> list[Ended]:
        ended, self.answers = self.answers, []
        return ended


class Bus(SimulatedBus):
    """refused: the topic to which the brokers let nothing be written. takes_ms: how long a refusal takes.
    take_one: polls return one record at a time.

    A record for a missing topic ends the bus after 10 s: the client waits longer for the topic.
    """

    refused = ""
    takes_ms = 0
    take_one = False

    def poll(self, most: int, timeout_s: float) -> Batch:
        return super().poll(1 if self.take_one else most, timeout_s)

    def commit(
        self, outputs: Sequence[Output], offsets: Mapping[TopicPartition, Committed], membership: object
    ) -> int | None:
        if any(output.topic == self.refused for output in outputs):
            self.cluster.now_ms += self.takes_ms
            raise TransactionAborted(f"A record of {self.refused} was refused.")
        if any(output.topic not in self.cluster.topics for output in outputs):
            self.cluster.now_ms += 10_000
            raise UnreachableError("A transaction failed (_TIMED_OUT).")
        return super().commit(outputs, offsets, membership)


class Setting:
    """One partition, one sink, and a deliverer at a time."""

    def __init__(self, **sink: Any) -> None:
        self.cluster = Cluster()
        self.cluster.create("b-action", 1, compact=True)
        self.cluster.create("b-subscription", 1, compact=True)
        self.cluster.create("b-dead-letter", 1)
        self.names = 0
        self.on_wait: Callable[[], object] = lambda: None  # called while a rebalance waits for deliveries
        self.define(**sink)
        self.begin()

    def define(self, **members: Any) -> None:
        record = SinkRecord(subscription=SINK, connection="c", retry=Retry(jitter=0), **members)
        self.cluster.append(TopicPartition("b-subscription", 0), record.key, encode_json(record))

    def begin(self, parts: DelivererParts = PARTS) -> None:
        """Another process takes over."""
        if self.names:
            self.bus.close()
        self.names += 1
        self.bus = Bus(self.cluster, Alone(self.cluster), f"d{self.names}")
        self.posts = Posts()
        seconds = DelivererEnvironment(
            lambda: 0.0, lambda: self.cluster.now_ms / 1000, lambda: 0.0, lambda _: self.on_wait()
        )
        context = DelivererContext.of(self.bus, CONFIG, replace(parts, environment=seconds))
        self.deliverer = Deliverer(context, self.posts)

    def fire(self, name: str, key: str = "a") -> None:
        written = action(name, key)
        self.cluster.append(TP, written.key, encode_json(written))

    def passes(self, count: int = 6, ms: int = 0) -> None:
        for _ in range(count):
            self.cluster.now_ms += ms
            self.deliverer.run_pass()
            self.bus.host.pause("")

    @property
    def sent(self) -> list[str]:
        return [delivery.firing.key.decode().partition("\0")[2] for delivery in self.posts.sent]

    def answer(self, name: str, answer: Answer, reply: Output | None = None) -> None:
        number = next(a.number for a in reversed(self.posts.sent) if a.firing.key.endswith(name.encode()))
        self.posts.answers.append(Ended(number, answer, reply))

    @property
    def committed(self) -> int | None:
        committed = self.cluster.group.offsets.get(TP)
        return None if committed is None else committed.offset

    def written(self, topic: str) -> list[dict[str, str]]:
        """The headers of the records of a topic, as text."""
        log = self.cluster.topics[topic].logs[0]
        return [
            {name: (value or b"").decode() for name, value in entry.headers or ()}
            for _, entry in log.history()
        ]
