"""What a client holds of a batch that unpacks to a hundred times its size."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.kafka.reader import TAKEN_BYTES, KafkaReader, consume

from .conftest import set_topic

COUNT, SIZE = 200, 256 * 1024


def send_bomb(bench: Any, part: str = "value") -> TopicPartition:
    """Write a gzip batch of 50 MB of zeros, which is 50 kB long. part: of the messages, which holds them."""
    settings = {
        "compression.type": "gzip",
        "linger.ms": 1000,
        "batch.size": 200_000_000,
        "message.max.bytes": 200_000_000,
        "message.timeout.ms": 60_000,
    }
    producer = Producer({**bench.config.client, **settings})
    tp = TopicPartition(bench.config.topic("event"), 0)
    refused: list[Any] = []

    def on_delivery(error: Any, _: object) -> None:
        if error is not None:
            refused.append(error)

    for _ in range(COUNT):
        zeros = b"\0" * SIZE
        content = {part: [("h", zeros)] if part == "headers" else zeros}
        producer.produce(tp.topic, partition=tp.partition, on_delivery=on_delivery, **content)
    producer.flush(60)
    if refused:
        raise KafkaException(refused[0])
    return tp


def test_a_batch_that_unpacks_to_much_more_is_handed_over_in_parts(bench: Any, eventually: Any) -> None:
    """A gzip batch of zeros (a hostile producer)."""
    tp = send_bomb(bench)
    with closing(KafkaReader(bench.config)) as reader:
        reader.read({tp: 0})
        first = eventually("records", lambda: reader.take(5000, 1.0))
        found = len(first)
        assert 0 < found < COUNT
        while found < COUNT:
            found += sum(isinstance(each, Record) for each in reader.take(5000, 1.0))


@pytest.mark.parametrize("part", ["key", "headers"])
def test_keys_and_headers_are_counted_when_the_engine_takes_messages(
    bench: Any, eventually: Any, part: str
) -> None:
    tp = send_bomb(bench, part)
    with closing(KafkaReader(bench.config)) as reader:
        reader.read({tp: 0})
        taken = eventually("messages", lambda: consume(reader._consumer, 5000, 1.0))
        assert len(taken) <= TAKEN_BYTES // SIZE + 1


@pytest.mark.long
def test_a_topic_that_is_stored_uncompressed_takes_no_such_batch(bench: Any) -> None:
    """The setting that docs/operate/operating.md names."""
    set_topic(bench.admin, bench.config.topic("event"), "compression.type", "uncompressed")
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        send_bomb(bench)
