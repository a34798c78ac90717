"""Clients for loops without an engine, with the engine's settings; and the lines that such a loop prints."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, Producer, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import consumer_settings
from interlock.engine.kafka.clients import ClientErrors, connect
from interlock.engine.kafka.transactions import producer_settings


def clients(config: BusConfig, group: str) -> tuple[Consumer, Producer]:
    """(consumer, producer): the consumer not yet subscribed, the producer ready for a transaction."""
    errors = ClientErrors()
    consumer = connect(Consumer, config, errors, group_id=group, **consumer_settings(config))
    producer = connect(Producer, config, errors, transactional_id=group, **producer_settings())
    producer.init_transactions()
    return consumer, producer


class Joined:
    """Subscribes a consumer; prints how many partitions it has and how many records it has consumed."""

    def __init__(self, consumer: Consumer, topics: Sequence[str]) -> None:
        self._owns = self._consumed = 0
        consumer.subscribe(list(topics), on_assign=self._begin)

    def _begin(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign([TopicPartition(tp.topic, tp.partition, 0) for tp in partitions])
        self._owns = len(partitions)
        self.consumed(0)

    def consumed(self, more: int) -> None:
        self._consumed += more
        print(self._owns, self._consumed, flush=True)
