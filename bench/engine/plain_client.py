"""How long a Kafka client alone takes to write or read the same records, without decoding them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.kafka.reader import FETCH_BACKOFF_MS, FETCH_WAIT_MS, consume

DEADLINE_S = 120.0
# By default the end of a partition is reported 0.5 s late, and a client with a full queue pauses for 1 s.
READS: dict[str, Any] = {
    "group.id": "bench",
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "fetch.wait.max.ms": FETCH_WAIT_MS,
    "fetch.queue.backoff.ms": FETCH_BACKOFF_MS,
}


def read_whole(config: BusConfig, topic: str, partitions: int) -> float:
    """Seconds from the assignment until all records of a topic are read."""
    consumer = Consumer({**config.client, **READS})
    places = [TopicPartition(topic, p, 0) for p in range(partitions)]
    # Connects and fetches the ends first: an engine has done so when it is assigned partitions.
    ends = {tp.partition: consumer.get_watermark_offsets(tp, DEADLINE_S)[1] for tp in places}
    left = {partition for partition, end in ends.items() if end}
    started = time.perf_counter()
    consumer.assign(places)
    while left:
        _require(started)
        messages: list[Any] = consume(
            consumer, 10_000, 0.1
        )  # Any: the stub includes None, which never occurs here
        for message in messages:
            if _is_end(message) or message.offset() + 1 >= ends[message.partition()]:
                left.discard(message.partition())
    took = time.perf_counter() - started
    consumer.close()
    return took


def write_and_read(
    config: BusConfig, topic: str, records: Iterable[tuple[bytes, bytes]], settings: Mapping[str, Any]
) -> float:
    """Seconds from the first `produce` until a reader has read all these records, (key, value).

    Both clients are warm: connected, with one record written and read. Uses partition 0 of the topic, from
    its present end.
    """
    producer, consumer = Producer({**config.client, **settings}), Consumer({**config.client, **READS})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), DEADLINE_S)
    consumer.assign([TopicPartition(topic, 0, end)])
    producer.produce(topic, b"", b"", partition=0)
    producer.flush()
    _take(consumer, 1)
    given = list(records)
    started = time.perf_counter()
    for key, value in given:
        producer.produce(topic, value, key, partition=0)
        producer.poll(0)
    producer.flush()
    _take(consumer, len(given))
    took = time.perf_counter() - started
    consumer.close()
    return took


def _is_end(message: Message) -> bool:
    """Whether the message marks the end of a partition. The last offset may be a transaction marker's, which
    no client returns."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise SystemExit(f"bench: a plain client cannot read: {error}")
    return error is not None


def _take(consumer: Consumer, count: int) -> None:
    started = time.perf_counter()
    while count > 0:
        _require(started)
        count -= sum(message.error() is None for message in consume(consumer, 10_000, 0.1))


def _require(started: float) -> None:
    if time.perf_counter() - started > DEADLINE_S:
        raise SystemExit(f"bench: a plain client did not read its records within {DEADLINE_S:.0f} s")
