"""Reads whole topics with a plain read_committed consumer without a group."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition


@dataclass(frozen=True)
class Record:
    """A record of a topic. timestamp_ms: the append time if the topic uses LogAppendTime.

    headers: empty if the client cannot unpack them (a name is not UTF-8).
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def place(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"

    def header(self, name: str) -> str | None:
        for key, value in self.headers:
            if key == name and value is not None:
                return value.decode("utf-8", "replace")
        return None

    def json(self) -> Any:
        """Returns the parsed JSON value; None if it is null or not JSON."""
        try:
            return json.loads(self.value) if self.value is not None else None
        except ValueError:
            return None


def read_all(bootstrap_servers: str, topic: str, timeout_s: float = 60.0) -> list[Record]:
    """Returns all committed records, in the order of timestamp, partition and offset."""
    records: list[Record] = []
    consumer = _consumer(bootstrap_servers)
    try:
        deadline = time.monotonic() + timeout_s
        waiting = _assign_all(consumer, topic, timeout_s)
        while waiting:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} was not read to its end in {timeout_s:.0f} s")
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                records.append(_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                waiting.discard(message.partition())
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
    return sorted(records, key=lambda record: (record.timestamp_ms, record.partition, record.offset))


def wait_for(
    bootstrap_servers: str,
    topic: str,
    wanted: Callable[[Record], bool],
    *,
    timeout_s: float,
    meanwhile: Callable[[], None],
) -> Record:
    """Waits for the first `wanted` record, and returns it. `meanwhile` is called often, and may raise."""
    consumer = _consumer(bootstrap_servers)
    try:
        deadline = time.monotonic() + timeout_s
        _assign_all(consumer, topic, timeout_s)
        while time.monotonic() < deadline:
            message = consumer.poll(0.25)
            if message is not None and message.error() is None and wanted(record := _record(message)):
                return record
            if message is None:
                meanwhile()
        raise TimeoutError(f"the record waited for is not in {topic} after {timeout_s:.0f} s")
    finally:
        consumer.close()


def send_again(bootstrap_servers: str, record: Record) -> None:
    """Writes a copy of the record to its partition: the same event a second time."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all"})
    failures: list[str] = []

    def on_delivery(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(error.str())

    producer.produce(
        record.topic,
        record.value,
        record.key,
        partition=record.partition,
        headers=list(record.headers),
        on_delivery=on_delivery,
    )
    if producer.flush(15.0) or failures:
        raise RuntimeError(f"{record.place} could not be sent again: {failures or 'no acknowledgement'}")


def _consumer(bootstrap_servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            # librdkafka requires a group id. This consumer joins no group and commits nothing.
            "group.id": f"demo-reader-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }
    )


def _assign_all(consumer: Consumer, topic: str, timeout_s: float) -> set[int]:
    # A broker that was paused or has just started may need more than a few seconds for its first answer.
    metadata = consumer.list_topics(topic, timeout=timeout_s).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    partitions = set(metadata.partitions)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    return partitions


# A plain `headers()`, or a second call, returns a list with a null pointer if a name is not UTF-8.
_headers = methodcaller("headers")


def _record(message: Any) -> Record:
    try:
        headers = _headers(message)
    except Exception:  # noqa: BLE001  # the client raises SystemError or UnicodeDecodeError
        headers = None
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(headers or ()),
    )
