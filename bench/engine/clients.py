"""A bare consumer and its transactional producer, with the engine's settings."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer
from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import consumer_settings
from interlock.engine.kafka.clients import ClientErrors, connect
from interlock.engine.kafka.transactions import producer_settings


def clients(config: BusConfig, group: str) -> tuple[Consumer, Producer]:
    """Neither has joined; the producer can begin its first transaction."""
    errors = ClientErrors()
    consumer = connect(Consumer, config, errors, group_id=group, **consumer_settings())
    producer = connect(Producer, config, errors, transactional_id=group, **producer_settings())
    producer.init_transactions()
    return consumer, producer
