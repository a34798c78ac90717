"""The waits of a process with the reader and the producer that a test controls; and records for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError
from interlock import event
from interlock.engine.bus import End, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.records import (
    BUS_KEY,
    ActionRecord,
    BusRecord,
    FiringRecord,
    Registration,
    encode_json,
)
from interlock.engine.waiting.environment import WaitEnvironment
from interlock.engine.waiting.notices import NoticeBoard
from interlock.engine.waiting.waits import Wait, Waits

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
REGISTRY, ACTION = TopicPartition("b-subscription", 0), TopicPartition("b-action", 0)
ENDS = [End(REGISTRY, 0), End(ACTION, 0)]
W = Registration.of("w", event("x"), None, 0)
V = Registration.of("v", event("x"), None, 0)


def action(registration: Registration, offset: int = 0, state: Any = "fired") -> Record:
    firing = FiringRecord(id="f", outcome="met", key=None, fired_at="", events={}, origins={})
    record = ActionRecord(
        subscription=registration.subscription,
        incarnation=registration.incarnation,
        state=state,
        firing=firing,
    )
    return Record(ACTION, offset, 0, registration.subscription.encode(), encode_json(record), None)


def bus_record(offset: int = 0) -> Record:
    value = encode_json(BusRecord(partitions=1))
    return Record(REGISTRY, offset, 0, BUS_KEY, value, None)


class Stage:
    """What the broker would be: takes what is produced, and gives the next records that a test says."""

    def __init__(self) -> None:
        self.board = NoticeBoard()
        self.waits = self.new_waits()
        self.stop = threading.Event()
        self.script: list[Callable[[], list[Any]]] = []
        self.produced: list[tuple[bytes, bytes]] = []
        self.leases: list[tuple[bytes, bytes | None]] = []
        self.echoed = 0  # of them, how many the registry has shown
        self.end = 0  # of the registry
        self.refusals: list[Exception] = []
        self.undelivered: list[Any] = []
        self.delivery_error: KafkaError | None = None
        self.removed = False  # whether all firings are, by compaction or retention
        self.read_so_far: dict[tuple[TopicPartition, int], bytes] = {}
        self.now = 0.0

    def new_waits(self) -> Waits:
        return Waits(CONFIG, self.board, environment=WaitEnvironment(monotonic=lambda: self.now))

    # -- the reader

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        assert set(positions) == {REGISTRY, ACTION}

    def take(self, most: int, timeout_s: float) -> list[Any]:
        if self.script:
            items = [*self.script.pop(0)(), *self._echo()]
            for item in items:
                if isinstance(item, Record) and item.value is not None:
                    self.read_so_far[item.source, item.offset] = item.value
            return items
        self.stop.set()
        return []

    def _echo(self) -> list[Record]:
        """The leases that were written, as the registry shows them."""
        echo = []
        for key, value in self.leases[self.echoed :]:
            self.end = max(self.end, self.waits._topics.registry.position) + 1
            echo.append(Record(REGISTRY, self.end, int(self.now * 1000), key, value, None))
        self.echoed = len(self.leases)
        return echo

    def close(self) -> None:
        pass

    def fetch(self, _: object, places: Any, __: object) -> Any:
        found = {} if self.removed else self.read_so_far
        return [(place, found.get((place.source, place.offset))) for place in places]

    # -- the producer

    def produce(
        self, topic: str, value: bytes | None, key: bytes, partition: int, on_delivery: Any = None
    ) -> None:
        assert (topic, partition) == ("b-subscription", 0)
        if self.refusals:
            raise self.refusals.pop(0)
        if on_delivery is None:
            self.leases.append((key, value))
            return
        assert value is not None
        self.produced.append((key, value))
        self.undelivered.append(on_delivery)

    def poll(self, timeout_s: float) -> int:
        for on_delivery in self.undelivered:
            on_delivery(self.delivery_error, None)
        self.undelivered.clear()
        return 0

    def flush(self, timeout_s: float) -> int:
        return 0

    # -- the test

    def after(self, seconds: float, *records: Record) -> Callable[[], list[Any]]:
        """An entry of a script: the time goes by, and then these records come."""

        def take() -> list[Any]:
            self.now += seconds
            return list(records)

        return take

    def run(self, *script: Any) -> None:
        """One run of the waits' thread: an entry is the result of a `take`, or a function for it."""
        self.script = [entry if callable(entry) else (lambda entry=entry: entry) for entry in script]
        self.stop.clear()
        self.waits.run(self.stop)

    def open(self, registration: Registration) -> tuple[Wait, list[Any]]:
        received: list[Any] = []
        return self.waits.open(registration, received.append), received

    def registered(self, offset: int = 0, which: int = -1) -> Record:
        """What was produced last, as the registry shows it."""
        key, value = self.produced[which]
        return Record(REGISTRY, offset, 0, key, value, None)
