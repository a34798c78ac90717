"""What has fired on a bus, from its beginning, as readers of committed records see it."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, TopicPartition
from interlock.engine.config import BusConfig


def firings_of(config: BusConfig, partitions: int, settings: dict[str, Any] | None = None) -> Consumer:
    """A consumer that is assigned all of them. settings: other than the client's defaults."""
    consumer = Consumer({
        **config.client, "group.id": "bench", "isolation.level": "read_committed",
        "auto.offset.reset": "earliest", **(settings or {}),
    })  # fmt: skip
    topic = config.topic("action")
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    return consumer
