"""Action records of firings for sinks, as an engine writes them; they are written without an engine."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple

from confluent_kafka import Producer
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.delivery.firings import OpenFiring, open_firing, subscription_of
from interlock.engine.delivery.retry import Retry
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.kafka.topics import write_registry
from interlock.engine.records import ActionRecord, FiringRecord, encode_json
from interlock.engine.records.event_form import raw_form

from ..engine.load import PARTITIONS, PRODUCER, event_of, put
from ..sizes import number
from .processes import HOST

KEYS: Final = number("KEYS", 512)
IN_FLIGHT: Final = 64
TYPE: Final = "com.example.order.placed"


class Sink(NamedTuple):
    """path: of the sink (see `sink.PATHS`). timeout_s: of a delivery."""

    name: str
    path: str
    send: Literal["event", "firing"] = "firing"
    timeout_s: float = 30.0

    def record(self, config: BusConfig, port: int) -> SinkRecord:
        """The sink's record. In place of a connection's id it has the sink's address (delivering.py)."""
        return SinkRecord(
            subscription=subscription_of(config.deployment, self.name),
            connection=f"http://{HOST}:{port}/{self.path}",
            max_in_flight=IN_FLIGHT,
            send=self.send,
            retry=Retry(timeout_s=self.timeout_s),
        )


def key_of(n: int) -> str:
    return f"s{n % KEYS}"


def fired(config: BusConfig, subscription: str, n: int) -> tuple[bytes, bytes, int]:
    """(record key, value, partition) of the firing of an event of about 300 bytes."""
    event = event_of(TYPE, n, key_of(n))
    origin = {"topic": config.topic("event"), "partition": 0, "offset": n, "timestamp_ms": 1_800_000_000_000}
    firing = FiringRecord(
        id=f"f{n}",
        outcome="met",
        key=key_of(n),
        fired_at="2026-11-20T12:00:00.000+00:00",
        events={TYPE: [raw_form(event)]},
        origins={TYPE: [origin]},
    )
    action = ActionRecord(
        subscription=subscription, kind="durable", incarnation="i", state="fired", firing=firing
    )
    return action.key, encode_json(action), zlib.crc32(key_of(n).encode()) % PARTITIONS


def opened(config: BusConfig, subscription: str, n: int) -> OpenFiring:
    """The same firing as a deliverer reads it."""
    key, value, partition = fired(config, subscription, n)
    tp = TopicPartition(config.topic("action"), partition)
    found = open_firing(Record(tp, n, 0, key, value, None), subscription)
    assert found is not None
    return found


def write_sinks(config: BusConfig, port: int, sinks: Iterable[Sink]) -> None:
    records = [sink.record(config, port) for sink in sinks]
    write_registry(config, {record.key: encode_json(record) for record in records})


class FiringWriter:
    """Writes firings in transactions; those of one become readable together. written: how many so far."""

    def __init__(self, config: BusConfig) -> None:
        self._config, self.written = config, 0
        self._producer = Producer({**config.client, **PRODUCER, "transactional.id": f"bench-{config.name}"})
        self._producer.init_transactions(30)

    def hide(self, name: str, count: int) -> Callable[[], None]:
        """Writes firings for a sink. Returns a function that commits, so that they can be read."""
        subscription = subscription_of(self._config.deployment, name)
        self._producer.begin_transaction()
        for n in range(self.written, self.written + count):
            key, value, partition = fired(self._config, subscription, n)
            put(self._producer, self._config.topic("action"), value, key, partition=partition)
        self._producer.flush()
        self.written += count
        return lambda: self._producer.commit_transaction(30)
