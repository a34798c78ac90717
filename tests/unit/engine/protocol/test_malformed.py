"""Records that claim other offsets than their own, in the engine's loop and in scans."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from interlock import event
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.errors import NotReadable
from interlock.engine.protocol.partitions.offsets import OffsetChecks, Refusal
from interlock.engine.protocol.parts import EngineParts
from interlock.engine.protocol.tasks.claims import MOST_CLAIMS
from interlock.engine.records import OffsetMetadata, Registration, encode_json

from tests.kit.made_of import MadeOf
from tests.kit.pool import DEAD, EVENT, Pool

LIVE = Registration.of("live", event("x"), None, 0, kind="durable")
PAIR = Registration.of("pair", event("x") & event("y"), None, 0)
OTHER = TopicPartition(EVENT.topic, 1)
FAR = 2**31 - 2


def emit_malformed(pool: Pool, delta: int, partition: int = 0) -> int:
    """An event that claims to be so many offsets after its own, which is returned."""
    at = pool.emit("x", partition=partition)
    pool.log(TopicPartition(EVENT.topic, partition)).claims[at] = at + delta
    return at


@pytest.mark.parametrize("delta", [1, 3, 30, FAR])
def test_the_events_behind_a_malformed_record_fire_and_it_is_a_dead_letter(delta: int) -> None:
    pool = Pool(LIVE)
    pool.emit("x", times=5)
    emit_malformed(pool, delta)
    pool.emit("x", times=60)
    pool.start()
    assert len(pool.fired()) == 65
    assert len(pool.records(DEAD)) == 1


def test_a_flood_of_malformed_records_is_fetched_again_for_its_partition_alone() -> None:
    pool = Pool(LIVE, events=2)
    pool.start()
    bus = pool.buses["one"]
    bus.calls.clear()
    for number in range(60):
        emit_malformed(pool, 7 + number % 5)
        pool.emit("x")
        pool.emit("x", partition=1)
    pool.run(60)
    assert len(pool.fired()) == 120
    assert len(pool.records(DEAD)) == 60
    assert {call for call in bus.calls if call.startswith(("seek", "start"))} == {f"seek {EVENT}"}


def test_many_malformed_records_are_refused_in_one_transaction() -> None:
    pool = Pool(LIVE)
    pool.emit("x")
    for _ in range(15):
        emit_malformed(pool, 40)
    pool.emit("x", times=60)
    pool.boot()
    bus = pool.buses["one"]
    while not pool.records(DEAD):
        pool.run(1)
    assert len(pool.records(DEAD)) == 15
    pool.run()
    assert len(pool.fired()) == 61
    assert bus.most_records >= 15


def test_a_client_that_cannot_fetch_one_partition_again_fetches_all(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(LIVE)
    pool.start()
    bus = pool.buses["one"]
    monkeypatch.setattr(bus, "seek", lambda tp, offset: False)
    emit_malformed(pool, 5)
    pool.emit("x", times=20)
    pool.run()
    assert len(pool.fired()) == 20


def test_a_transaction_marker_costs_no_request_for_the_end() -> None:
    pool = Pool(LIVE)
    pool.start()
    bus = pool.buses["one"]
    bus.calls.clear()
    log = pool.log(EVENT)
    for _ in range(50):
        log.removed.add(pool.emit("x"))
        pool.emit("x")
        pool.run(2)
    assert len(pool.fired()) == 50
    assert f"stable {EVENT}" not in bus.calls


@pytest.mark.parametrize("delta", [3, 30])
def test_a_scan_reads_the_events_behind_malformed_records(delta: int) -> None:
    pool = Pool()
    pool.start()
    pool.emit("x")
    for _ in range(4):
        emit_malformed(pool, delta)
    pool.emit("z", times=40)
    pool.emit("y")
    pool.run()
    pool.register(PAIR)
    pool.run()
    assert pool.fired() == [("pair", "met")]


@pytest.mark.parametrize("owner", ["one", "two"])
def test_a_look_back_begins_at_the_true_offset_of_a_record_that_was_refused(
    owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers answer with the offset that the first record at or after `since` claims.

    Another owner of the partition began there, and missed the events before it.
    """
    pool = Pool()
    pool.start()
    pool.emit("z")
    at = emit_malformed(pool, 5)
    pool.emit("x")
    pool.emit("z", times=10)
    pool.run()
    if owner == "two":
        pool.kill("one")
        pool.start("two")

    def claimed(partitions: object, timestamp_ms: int) -> Mapping[TopicPartition, int | None]:
        return {EVENT: at + 5}

    monkeypatch.setattr(pool.buses[owner], "offsets_since", claimed)
    pool.register(PAIR)
    pool.emit("y")
    pool.run()
    assert pool.fired() == [("pair", "met")]


def test_the_claims_of_records_that_a_scan_refused_are_kept_too() -> None:
    """They were refused when they were read live, and the metadata have lost their claims since."""
    pool = Pool()
    pool.start()
    pool.emit("x")
    places = [emit_malformed(pool, 30) for _ in range(MOST_CLAIMS + 2)]
    pool.emit("z", times=40)
    pool.run()
    kept = [(at + 30, at) for at in places][-MOST_CLAIMS:]
    assert pool.metadata(EVENT).claims == kept
    pool.kill()
    pool.commit_by_hand(EVENT, pool.log(EVENT).end, encode_json(OffsetMetadata(applied=0)).decode())
    pool.register(PAIR)
    pool.start()
    assert pool.metadata(EVENT).claims == kept


class Unreadable(OffsetChecks):
    """One listed topic cannot be looked up."""

    def refusal(self, record: Record, position: int) -> Refusal | None:
        if record.source.topic == "orders":
            raise NotReadable("orders", "orders[0] could not be read at offset 2 within 10 s.")
        return super().refusal(record, position)


def test_a_partition_that_cannot_be_looked_up_pauses_its_topic_alone() -> None:
    """Its leader is gone in this moment."""
    pool = Pool(LIVE, topics=("orders",), made_of=MadeOf(parts=EngineParts(offsets=Unreadable)))
    engine = pool.start()
    orders = TopicPartition("orders", 0)
    pool.log(orders).removed.add(pool.write(orders, b"k", b"1"))
    pool.write(orders, b"k", b"2")
    pool.run(3)
    assert orders in engine.ownership.unread
    pool.emit("x", times=3)
    pool.run()
    assert len(pool.fired()) == 3
