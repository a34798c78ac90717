"""Buses that had an engine, for tests of the next one's takeover."""

from __future__ import annotations

from interlock import event
from interlock.engine.bus import TopicPartition
from interlock.engine.records import OffsetMetadata, Registration, encode_json

from tests.kit.pool import EVENT, Pool

OTHER = TopicPartition(EVENT.topic, 1)
PAIR = Registration.of("pair", event("x") & event("y"), None, 0)
EACH = Registration.of("each", event("x"), None, 0, kind="durable")


def used(events: int = 1, *registrations: Registration) -> Pool:
    """A bus whose engine has read three events of each partition, and was killed."""
    pool = Pool(*registrations, events=events)
    pool.boot()
    for number in range(events):
        pool.emit("x", partition=number, times=3)
    pool.run()
    pool.kill()
    return pool


def stopped(pool: Pool) -> dict[TopicPartition, str]:
    return pool.engines["one"].ownership.unread


def metadata(pool: Pool, tp: TopicPartition, **fields: object) -> str:
    return encode_json(
        OffsetMetadata(**{"applied": 1, "topic_id": pool.topic_id(tp.topic), **fields})
    ).decode()  # type: ignore[arg-type]
