"""The minimal transactional client loop: consume, read the headers, produce one record, commit.

    python -m bench.engine.raw_loop SETTINGS BATCH

Uses the engine's settings, with BATCH records per transaction. It prints how many partitions it has, and how
many records it has consumed.
"""

from __future__ import annotations

import sys
from typing import Any

from confluent_kafka import TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.kafka.reader import consume

from .clients import Joined, clients
from .process import config_given


def raw_loop(config: BusConfig, batch: int) -> None:
    """Runs until it is killed."""
    consumer, producer = clients(config, f"{config.name}-raw")
    topic, target = config.topic("event"), config.topic("dead-letter")
    joined = Joined(consumer, [topic])
    while True:
        # Any: the stub includes None, which never occurs here; a check would make the baseline slower.
        messages: list[Any] = [
            message for message in consume(consumer, batch, 0.1) if message.error() is None
        ]
        if not messages:
            continue
        offsets: dict[int, int] = {}
        producer.begin_transaction()
        for message in messages:
            dict(message.headers())
            while True:  # not load.put: a call for each record would make the baseline slower
                try:
                    producer.produce(target, message.value(), None, message.partition())
                    break
                except BufferError:
                    producer.poll(0.01)
            offsets[message.partition()] = message.offset() + 1
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, p, o) for p, o in offsets.items()], consumer.consumer_group_metadata()
        )
        producer.commit_transaction()
        joined.consumed(len(messages))


if __name__ == "__main__":
    raw_loop(config_given(), int(sys.argv[2]))
