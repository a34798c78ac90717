"""Ownership of topics that are taken out of the list, and listed again."""

from __future__ import annotations

import msgspec
import pytest
from interlock import Event, event
from interlock.engine.bus import Committed, TopicPartition
from interlock.engine.protocol.partitions import recovery
from interlock.engine.protocol.partitions.registry_reader import RegistryReader
from interlock.engine.records import MatchRecord, MatchTarget, Registration, encode_msgpack, registry_key

from tests.kit.pool import EVENT, REGISTRY, TRIGGER, Pool
from tests.unit.engine.protocol.taken_over import EACH, OTHER, PAIR, metadata, stopped, used

ORDERS = TopicPartition("orders", 0)


def relisted(registration: Registration, *, forgotten: bool = False) -> Pool:
    """A bus that read two records of a topic, stopped listing it, and lists it again with two more.

    forgotten: the group's offsets of it have expired meanwhile, as after a week.
    """
    pool = Pool.started(registration, topics=(ORDERS.topic,))
    for value in (b"1", b"2"):
        pool.write(ORDERS, None, value)
    pool.run()
    assert len(pool.fired()) == 2
    pool.write_bus_record(msgspec.structs.replace(pool.record, topics=()))
    for kind in ("source", "resume", "problem"):
        pool.write(REGISTRY, registry_key(kind, *ORDERS), None)  # type: ignore[arg-type]
    pool.run()
    for value in (b"3", b"4"):
        pool.write(ORDERS, None, value)
    if forgotten:
        del pool.cluster.group.offsets[ORDERS]
    pool.write_bus_record(pool.record)
    pool.run()
    return pool


@pytest.mark.parametrize("forgotten", [True, False])
def test_a_topic_that_is_listed_again_begins_at_its_end_and_look_backs_bring_what_came_meanwhile(
    forgotten: bool,
) -> None:
    """Nothing is evaluated twice."""
    record = Registration.of("r", event("org.apache.kafka.record"), None, 0, kind="durable")
    pool = relisted(record, forgotten=forgotten)
    assert stopped(pool) == {}
    assert pool.committed(ORDERS).offset == 4
    assert len(pool.fired()) == 4


def test_an_owner_that_has_not_read_its_own_source_records_yet_does_not_begin_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RegistryReader, "read_new", lambda _: None)
    pool = Pool(topics=(ORDERS.topic,))
    engine = pool.start()
    engine.ownership.reopen()
    pool.run()
    assert [key for key, _ in pool.records(REGISTRY)].count(registry_key("source", *ORDERS)) == 1


def test_a_topic_that_is_listed_again_is_read_from_its_end() -> None:
    pool = Pool(Registration.of("w", event("org.apache.kafka.record"), None, 10**15), topics=(ORDERS.topic,))
    pool.commit_by_hand(ORDERS, 1, metadata(pool, ORDERS))
    for _ in range(5):
        pool.write(ORDERS, None, b"1")
    pool.cluster.delete_below(ORDERS, 3)
    engine = pool.start()
    assert stopped(pool) == {}
    assert engine.stats.consumed == 0
    assert pool.committed(ORDERS).offset == 5


@pytest.mark.parametrize("tp", [EVENT, ORDERS])
def test_an_offset_without_a_source_record_counts_unless_an_engine_committed_it_on_a_listed_topic(
    tp: TopicPartition,
) -> None:
    """An administrator may have committed where a topic that is about to be listed is to begin."""
    pool = Pool(topics=(ORDERS.topic,))
    pool.commit_by_hand(tp, 1, "" if tp is ORDERS else metadata(pool, tp))
    for _ in range(3):
        pool.write(tp, None, b"1", [("ce_id", b"1")])
    engine = pool.start()
    assert engine.stats.consumed == 2


def test_scans_continue_up_to_where_the_partition_resumes() -> None:
    pool = used(1, EACH)
    pool.emit("x", times=4)
    r = pool.log(REGISTRY).end
    pool.cluster.group.offsets[EVENT] = Committed(4, metadata(pool, EVENT, applied=r, scans=[[0, r, 3]]))
    pool.cluster.delete_below(EVENT, 6)
    pool.resume(EVENT, 6)
    pool.start()
    assert pool.metadata(EVENT).scans == []
    assert len(pool.fired()) == 3 + 1


def test_a_resumption_that_is_read_while_partitions_are_taken_over_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = used(1, PAIR)
    del pool.cluster.group.offsets[EVENT]
    pool.boot()
    slow = recovery.Recovery.advance
    turns = iter([False] * 5)
    monkeypatch.setattr(recovery.Recovery, "advance", lambda self: next(turns, True) and slow(self))
    while EVENT not in stopped(pool):
        pool.run(1)
    assert not pool.engines["one"].is_open
    pool.resume(EVENT, 3)
    pool.run()
    assert stopped(pool) == {}


def test_a_resumption_that_is_read_in_the_middle_of_a_pass_costs_no_match(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A match of a registration that is not read yet: the registry is read up to it, and has more records."""
    pool = used(2)
    del pool.cluster.group.offsets[OTHER]
    engine = pool.start("one")
    assert list(stopped(pool)) == [OTHER]
    pool.register(EACH)
    pool.resume(OTHER, 0)
    pool.emit("x")
    reader = engine._registry_reader
    with monkeypatch.context() as patch:
        # Another owner has matched already: this engine finds the match before it has read the registry.
        patch.setattr(reader, "read_new", lambda: None)
        target = MatchTarget(pool.log(REGISTRY).end - 2, EACH.incarnation, (0,), "")
        made = Event.of("x", "/elsewhere", id="1")
        match = MatchRecord(1, "elsewhere", 0, 0, pool.cluster.now_ms, made, [target])
        pool.write(TRIGGER, None, encode_msgpack(match))
        pool.run(3)
    pool.run()
    assert stopped(pool) == {}
    assert len(pool.fired()) == 8  # that one, and all of both partitions
