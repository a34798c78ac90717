"""Batches by hand, whose records claim other offsets than their own: brokers do not check the deltas."""

from __future__ import annotations

from typing import Any

import pytest
from interlock import event
from interlock.engine.bus import TopicPartition

from tests.integration.engine.raw_produce import produce

ORDERS = event("orders")
LAST = event("orders", where="event.id == '209'")
FAR = 2**31 - 2


def malformed(bench: Any, source: TopicPartition, delta: int, number: int = 0) -> int:
    """Write an event that every subscription of orders would match; returns the offset of its batch."""
    attributes = {"specversion": "1.0", "id": f"bad-{number}", "source": "/attacker", "type": "orders"}
    headers = [(f"ce_{name}".encode(), text.encode()) for name, text in attributes.items()]
    return produce(bench.config.bootstrap_servers, source, b"k", b"", headers, delta)


def emit(bench: Any, first: int, count: int) -> TopicPartition:
    """Emit events with the ids `first`, ... on one partition of the event topic."""
    for number in range(first, first + count):
        topic, partition, _ = bench.emit("orders", subject="one", id=str(number))
    return TopicPartition(topic, partition)


def fired(bench: Any, name: str, count: int) -> list[str]:
    found = bench.eventually_fired(name, count)
    return [each["firing"]["events"]["orders"][0]["id"] for each in found]


@pytest.mark.parametrize("delta", [100, FAR])
def test_an_event_behind_a_record_that_claims_a_later_offset_fires(bench: Any, delta: int) -> None:
    """A hand-made produce request amid a backlog (a hostile or broken producer)."""
    bench.subscribe("live", ORDERS)
    source = emit(bench, 0, 10)
    at = malformed(bench, source, delta)
    emit(bench, 10, 200)
    with bench.engine():
        ids = fired(bench, "live", 210)
        with bench.waiting() as waiting:  # it looks back over the record
            waiting("later", LAST).firing()
    assert sorted(ids, key=int) == [str(number) for number in range(210)]
    [dead] = bench.records("dead-letter")
    assert dead.header("interlock_origin") == f"{source}@{at + delta}"
    assert f"claims offset {at + delta}" in dead.header("interlock_reason")
    assert f"continues at offset {at + 1}" in dead.header("interlock_reason")


@pytest.mark.parametrize("delta", [3, FAR])
def test_a_record_at_the_end_that_claims_a_later_offset_stops_no_partition(bench: Any, delta: int) -> None:
    bench.subscribe("live", ORDERS)
    with bench.engine():
        source = emit(bench, 0, 3)
        fired(bench, "live", 3)
        malformed(bench, source, delta)
        emit(bench, 3, 5)
        ids = fired(bench, "live", 8)
    assert sorted(ids, key=int) == [str(number) for number in range(8)]
    assert len(bench.records("dead-letter")) == 1
    assert bench.committed("event", source.partition) == 9


def test_a_record_that_claims_an_earlier_offset_changes_nothing(bench: Any, eventually: Any) -> None:
    bench.subscribe("live", ORDERS)
    source = emit(bench, 0, 10)
    malformed(bench, source, -5)
    emit(bench, 10, 10)
    with bench.engine():
        ids = fired(bench, "live", 20)
        eventually("committed", lambda: bench.committed("event", source.partition) == 21)
    assert sorted(ids, key=int) == [str(number) for number in range(20)]
    assert [r.header("interlock_stage") for r in bench.records("dead-letter")] == ["event"]
