"""Housekeeping: what is deleted, whose waits are removed, and what was altered by hand."""

from __future__ import annotations

import logging

import pytest
from interlock import event
from interlock.engine.bus import TopicPartition
from interlock.engine.errors import EngineError, TopicsError
from interlock.engine.protocol import housekeeping
from interlock.engine.records import LeaseRecord, Registration, encode_json
from interlock.engine.waiting.lease_writer import LEASE_S

from tests.kit.pool import REGISTRY, STATE, TRIGGER, BusRecord, Pool

ONE = Registration.of("one", event("x"), None, 0, kind="durable")
WAIT = Registration.of("wait", event("x") & event("y"), None, 0)
GONE = Registration.of("gone", event("x"), None, 0)
STEP_MS = 25_000
DAY = housekeeping.ORPHAN_MS // STEP_MS  # passes


# -- what lies below the committed offset of a trigger partition


def test_matches_below_the_committed_offset_are_deleted_each_minute() -> None:
    pool = Pool(ONE)
    pool.boot()
    pool.emit("x", times=5)
    pool.run(20)
    assert pool.log(TRIGGER).start == 0
    pool.run(70, pass_ms=1000)
    assert pool.log(TRIGGER).start == pool.committed(TRIGGER).offset


def test_nothing_beyond_the_committed_offset_is_deleted() -> None:
    """A position that moved is committed a moment later; who takes over before that begins at the old one."""
    pool = Pool(WAIT)
    pool.boot()
    pool.emit("x")
    pool.run(20)
    pool.remove(WAIT)
    pool.register(ONE)
    pool.run(20)
    match = pool.records(TRIGGER)[0][1]
    pool.emit("x")
    while len(pool.fired()) < 2:
        pool.run(1, pass_ms=10)
    at = pool.engines["one"].ownership.triggers[TRIGGER].committed_position
    pool.write(TRIGGER, None, match)  # of a wait that is gone: nothing is written for it
    pool.engines["one"]._housekeeping._purged_at = 0.0
    pool.run(1, pass_ms=0)
    assert pool.committed(TRIGGER).offset == at
    assert pool.engines["one"].ownership.triggers[TRIGGER].position > at
    assert pool.log(TRIGGER).start <= at
    pool.kill()
    pool.start("two")
    assert pool.engines["two"].problems.all() == []


# -- waits that nobody has any more


def test_a_wait_that_no_lease_has_named_for_a_day_is_removed(caplog: pytest.LogCaptureFixture) -> None:
    pool = Pool()
    pool.register(WAIT, "n1")
    pool.register(WAIT, "n2")
    engine = pool.boot()
    pool.run(DAY - 10, pass_ms=STEP_MS)
    assert engine.registry.get(WAIT.incarnation) is not None
    with caplog.at_level(logging.WARNING, "interlock.engine"):
        pool.run(60, pass_ms=STEP_MS)
    assert engine.registry.get(WAIT.incarnation) is None
    gone = [key for key, value in pool.records(REGISTRY) if value is None]
    assert gone == [f"{WAIT.incarnation}:n1".encode(), f"{WAIT.incarnation}:n2".encode()]
    assert "'wait'" in caplog.text


def test_a_wait_that_a_lease_names_is_kept_with_the_lease_and_so_is_a_durable_subscription() -> None:
    pool = Pool(WAIT, ONE)
    engine = pool.boot()
    for _ in range(4):
        pool.lease(WAIT)
        pool.run(DAY // 2, pass_ms=STEP_MS)
        pool.emit("x")  # whose state tells the engine the brokers' time: it looks for what is old
        pool.run(5, pass_ms=STEP_MS)
    assert engine.registry.get(WAIT.incarnation) is not None
    assert engine.registry.get(ONE.incarnation) is not None
    assert [key for key, value in pool.records(REGISTRY) if value is None] == []


def test_a_wait_stays_as_long_as_its_lease_is_renewed_and_both_records_go_a_day_later() -> None:
    pool = Pool(WAIT)
    pool.boot()
    pool.lease(WAIT)
    for _ in range(5):
        pool.run(DAY // 2, pass_ms=STEP_MS)
        pool.renew()
    pool.kill()
    engine = pool.boot("two")  # which has not seen the earlier renewals at their times
    pool.run(DAY - 10, pass_ms=STEP_MS)
    assert engine.registry.get(WAIT.incarnation) is not None
    pool.run(60, pass_ms=STEP_MS)
    gone = [key for key, value in pool.records(REGISTRY) if value is None]
    assert gone == [f"{WAIT.incarnation}:n".encode(), b"lease/process/0", b"renewal/process"]


def test_an_idle_engine_looks_for_old_waits_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a fresh clock it looked through all registrations in each pass."""
    pool = Pool(WAIT)
    engine = pool.start()
    pool.run(20, pass_ms=STEP_MS)
    looked = list[int]()
    orphans = engine.registry.orphans
    monkeypatch.setattr(engine.registry, "orphans", lambda before_ms: looked.append(1) or orphans(before_ms))
    pool.run(1200, pass_ms=100)
    assert not engine.clock.fresh
    assert len(looked) == 2


def test_waits_whose_processes_come_back_after_a_day_have_a_lease_interval_to_renew_their_lease() -> None:
    pool = Pool(WAIT, GONE)
    pool.cluster.now_ms += 3 * housekeeping.ORPHAN_MS
    engine = pool.boot()
    pool.emit("z")
    pool.run(int(LEASE_S), pass_ms=1000)
    assert engine.registry.get(WAIT.incarnation) is not None
    pool.lease(WAIT)
    pool.run(120, pass_ms=1000)
    assert engine.registry.get(WAIT.incarnation) is not None
    assert engine.registry.get(GONE.incarnation) is None


def test_the_state_of_a_wait_that_is_removed_goes_with_it() -> None:
    pool = Pool(WAIT)
    pool.boot()
    pool.emit("x")
    pool.run()
    pool.run(DAY + 60, pass_ms=STEP_MS)
    assert dict(pool.records(STATE))[WAIT.incarnation.encode()] is None


def test_leftovers_of_a_removal_are_nulled_and_later_registrations_stay() -> None:
    pool = Pool()
    pool.register(WAIT, "n1")
    pool.register(WAIT, "n2")
    engine = pool.start()
    pool.remove(WAIT, "n1")
    pool.register(WAIT, "n3")
    pool.emit("x")
    pool.run(30)
    at = engine.registry.get(WAIT.incarnation).offset
    assert len(engine.registry.leftovers(2**62)) == 1
    pool.run(housekeeping.LEFTOVER_MS // STEP_MS + 20, pass_ms=STEP_MS)
    assert engine.registry.leftovers(2**62) == []
    assert [key for key, value in pool.records(REGISTRY) if value is None][1:] == [
        f"{WAIT.incarnation}:n2".encode()
    ]
    assert engine.registry.get(WAIT.incarnation).offset == at
    end = pool.log(REGISTRY).end
    pool.cluster.compact(REGISTRY.topic, 0, end, expired=end)
    pool.kill()
    engine = pool.boot("two")
    pool.emit("y")
    pool.run()
    assert engine.registry.get(WAIT.incarnation).offset == at
    assert pool.fired() == [("wait", "met")]


def test_only_the_owner_of_its_trigger_partition_removes_a_wait() -> None:
    pool = Pool(partitions=2)
    waits = [pool.register(Registration.of(f"w{n}", event("x"), None, 0)) for n in range(20)]
    pool.boot("one")
    pool.start("two", passes=10)
    pool.run(DAY + 60, pass_ms=STEP_MS)
    gone = [key for key, value in pool.records(REGISTRY) if value is None]
    assert sorted(gone) == sorted(f"{w.incarnation}:n".encode() for w in waits)


def test_a_wait_that_comes_back_is_registered_again_and_finds_its_events() -> None:
    pool = Pool(WAIT)
    pool.boot()
    pool.emit("x")
    pool.run(DAY + 60, pass_ms=STEP_MS)
    pool.register(WAIT)
    pool.emit("y")
    pool.run()
    assert pool.fired() == [("wait", "met")]


def test_the_lease_of_a_process_that_was_killed_is_removed_a_day_later_by_one_engine() -> None:
    pool = Pool(partitions=2)
    keys = [f"lease/gone-{n}".encode() for n in range(4)] + [f"lease/gone-{n}/1".encode() for n in range(4)]
    for key in keys:
        pool.write(REGISTRY, key, encode_json(LeaseRecord(deployment="d", incarnations=["i"], host="h")))
    pool.boot("one")
    pool.boot("two")
    pool.run(DAY - 10, pass_ms=STEP_MS)
    assert [key for key, value in pool.records(REGISTRY) if value is None] == []
    pool.run(60, pass_ms=STEP_MS)
    assert sorted(key for key, value in pool.records(REGISTRY) if value is None) == sorted(keys)


# -- topics that were altered


@pytest.mark.parametrize("kind", ["trigger", "state", "action", "subscription"])
def test_an_internal_topic_that_was_created_again_stops_the_engine(kind: str) -> None:
    pool = Pool()
    ids = {k: pool.topic_id(f"b-{k}") for k in ("trigger", "state", "action", "subscription", "dead-letter")}
    pool.write_bus_record(BusRecord(partitions=1, topic_ids=ids))
    pool.start()
    old = pool.cluster.topics[f"b-{kind}"]
    pool.cluster.create(f"b-{kind}", 1)
    pool.cluster.topics[f"b-{kind}"].logs = old.logs
    with pytest.raises(TopicsError, match=f"'b-{kind}' was deleted and created again"):
        pool.run(40, pass_ms=1000)


@pytest.mark.parametrize("kind", ["event", "trigger", "state", "action", "subscription"])
def test_a_topic_of_the_bus_that_is_gone_stops_the_engine(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool.started()
    describe = pool.cluster.describe
    monkeypatch.setattr(
        pool.cluster, "describe", lambda name: None if name == f"b-{kind}" else describe(name)
    )
    with pytest.raises(TopicsError, match=f"'b-{kind}' does not exist"):
        pool.run(40, pass_ms=1000)


@pytest.mark.parametrize("kind", ["trigger", "state", "action"])
def test_an_internal_topic_with_another_number_of_partitions_stops_the_engine(kind: str) -> None:
    pool = Pool.started()
    pool.cluster.add_partitions(f"b-{kind}", 2)
    with pytest.raises(EngineError):  # partitions of the trigger topic are assigned before anybody looks
        pool.run(40, pass_ms=1000)
    with pytest.raises(TopicsError, match=f"'b-{kind}' has 2 partitions, but the bus was created with 1"):
        pool.boot("next")


def test_an_altered_bus_is_an_error_at_the_start() -> None:
    pool = Pool()
    pool.cluster.add_partitions("b-state", 3)
    with pytest.raises(TopicsError, match="'b-state' has 3 partitions"):
        pool.boot()


def test_a_listed_topic_that_is_not_there_stops_nothing() -> None:
    pool = Pool.started(ONE, topics=("orders",))
    assert TopicPartition("orders", 0) in pool.engines["one"].partitions
    pool.cluster.delete("orders")
    pool.emit("x")
    pool.run(60, pass_ms=1000)
    assert pool.fired() == [("one", "met")]
    assert TopicPartition("orders", 0) not in pool.engines["one"].partitions
