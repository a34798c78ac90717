"""Durable subscriptions in a pool of engines, and what they fired."""

from __future__ import annotations

import msgspec
from interlock.conditions import Condition
from interlock.engine.bus import TopicPartition
from interlock.engine.records import Registration

from tests.kit.pool import ACTION, Pool


def durable(name: str, condition: Condition, since_ms: int = 0, *, max_keys: int = 100_000) -> Registration:
    return Registration.of(name, condition, None, since_ms, kind="durable", max_keys=max_keys)


def ids_fired(pool: Pool, name: str) -> list[list[str]]:
    """The events of each firing of a subscription, in the order of their labels."""
    found = []
    for number in range(pool.partitions):
        for _, value in pool.records(TopicPartition(ACTION.topic, number)):
            record = msgspec.json.decode(value or b"{}")
            if record["subscription"] == name:
                events = record["firing"]["events"]
                found.append([made["id"] for label in sorted(events) for made in events[label]])
    return found
