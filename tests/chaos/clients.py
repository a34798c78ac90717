"""Notices that a client of chaos itself has lost all brokers. (It does not use the engine's own way.)"""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient


def lost_brokers(client: Any, servers: str, seconds: float = 3.0) -> bool:
    """Whether the brokers answer a new client and not this one: librdkafka issue 5301.

    After a killed broker returned, such a client stays silent for ever, and only a new one helps.
    """
    return not _answered(client, seconds) and _answered(
        AdminClient({"bootstrap.servers": servers, "log_level": 2}), seconds
    )


def _answered(client: Any, seconds: float) -> bool:
    try:
        client.list_topics(timeout=seconds)
    except KafkaException:
        return False
    return True
