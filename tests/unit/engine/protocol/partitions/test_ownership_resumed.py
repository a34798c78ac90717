"""Ownership: how a partition that stopped continues where an administrator says."""

from __future__ import annotations

import msgspec
import pytest
from interlock import event
from interlock.engine.records import MatchRecord, Registration, registry_key

from tests.kit.pool import EVENT, REGISTRY, TRIGGER, Pool
from tests.unit.engine.protocol.taken_over import EACH, stopped, used


def test_a_stopped_partition_resumes_where_an_administrator_says_without_a_restart() -> None:
    pool = used(1, EACH)
    pool.emit("x", times=4)
    pool.cluster.delete_below(EVENT, 5)
    pool.start()
    assert len(pool.fired()) == 3
    pool.resume(EVENT, 5)
    pool.run()
    assert stopped(pool) == {}
    assert len(pool.fired()) == 5
    assert pool.committed(EVENT).offset == 7


@pytest.mark.parametrize(("chosen", "first"), [(-5, 5), (0, 5), (6, 6), (10**9, 7)])
def test_a_partition_resumes_within_its_existing_offsets(chosen: int, first: int) -> None:
    pool = used(1, EACH)
    pool.emit("x", times=4)
    pool.cluster.delete_below(EVENT, 5)
    pool.resume(EVENT, chosen)
    pool.start()
    assert len(pool.fired()) == 3 + (7 - first)


def test_a_resumption_counts_once() -> None:
    """The source record that the first commit writes comes after the resume record."""
    pool = used()
    del pool.cluster.group.offsets[EVENT]
    pool.resume(EVENT, 0)
    pool.start()
    assert stopped(pool) == {}
    assert pool.records(REGISTRY)[-1][0] == registry_key("source", *EVENT)
    pool.kill()
    del pool.cluster.group.offsets[EVENT]
    pool.start()
    assert list(stopped(pool)) == [EVENT]


def test_a_resumption_of_a_deleted_topic_does_not_count_for_its_successor() -> None:
    pool = used()
    pool.resume(EVENT, 0)
    kept = pool.committed(EVENT)
    pool.cluster.delete(EVENT.topic)
    pool.cluster.create(EVENT.topic, 1)
    pool.cluster.group.offsets[EVENT] = kept
    pool.start()
    assert list(stopped(pool)) == [EVENT]


def test_a_recreated_topic_resumes_from_its_start_and_its_events_are_new() -> None:
    pool = used(1, EACH)
    pool.cluster.delete(EVENT.topic)
    pool.cluster.create(EVENT.topic, 1)
    pool.emit("x")
    pool.start()
    assert list(stopped(pool)) == [EVENT]
    pool.resume(EVENT, 0)
    pool.run()
    assert len(pool.fired()) == 4


def test_resuming_from_the_start_repeats_nothing() -> None:
    pool = used(1, EACH)
    del pool.cluster.group.offsets[EVENT]
    pool.emit("x")
    pool.resume(EVENT, 0)
    pool.start()
    assert len(pool.fired()) == 4


# With unreadable metadata and without a skip all registrations are applied again, and look back.
SKIPS = [("gone", 0, 3), ("gone", 1, 2), ("gone", 3, 0)]
SKIPS += [("unreadable", 0, 3), ("unreadable", 1, 3), ("unreadable", 2, 1)]


@pytest.mark.parametrize(("metadata", "chosen", "fired"), SKIPS)
def test_look_backs_do_not_read_what_a_resumed_partition_skips(
    metadata: str, chosen: int, fired: int
) -> None:
    """Only before the resumption: a later registration looks back."""
    pool = used()
    pool.register(EACH)
    if metadata == "unreadable":
        pool.commit_by_hand(EVENT, 1, "nonsense")
    else:
        del pool.cluster.group.offsets[EVENT]
    pool.resume(EVENT, chosen)
    pool.start()
    assert stopped(pool) == {}
    assert len(pool.fired()) == fired
    pool.emit("x")
    pool.run()
    assert len(pool.fired()) == fired + 1
    pool.register(Registration.of("later", event("x"), None, 0))
    pool.run()
    assert len(pool.fired()) == fired + 2


def test_registrations_that_were_not_applied_yet_look_back_to_what_a_resumed_partition_skips() -> None:
    pool = used()
    pool.emit("x", times=4)
    pool.register(EACH)
    pool.cluster.delete_below(EVENT, 5)
    pool.resume(EVENT, 7)
    pool.start()
    assert stopped(pool) == {}
    assert len(pool.fired()) == 2


def test_timers_of_a_trigger_partition_without_metadata_are_opened_wherever_it_resumes() -> None:
    pool = used(1, EACH)
    pool.register(Registration.of("w", event("y").expires(after="10s"), None, pool.cluster.now_ms))
    del pool.cluster.group.offsets[TRIGGER]
    pool.resume(TRIGGER, 3)
    pool.boot()
    pool.run(40, pass_ms=1000)
    assert ("w", "expired") in pool.fired()


# -- marks beyond the end


def cut_off() -> Pool:
    """A bus whose engine has evaluated three events, of which the brokers then lost two."""
    pool = used(1, EACH)
    del pool.log(EVENT).entries[1:]
    return pool


@pytest.mark.parametrize("late", [False, True], ids=["engine runs", "engine starts later"])
def test_events_behind_the_end_of_a_resumed_partition_count_though_they_reuse_offsets(late: bool) -> None:
    """A log that lost its end (an unclean leader election, a restored disk): marks lie beyond it."""
    pool = cut_off()
    if not late:
        pool.start()
        assert "the committed offset 3 lies beyond its end 1" in stopped(pool)[EVENT]
    pool.resume(EVENT, 1, end=1)
    if late:
        pool.start()
    pool.run()
    pool.emit("x", times=3)
    pool.run()
    assert len(pool.fired()) == 3 + 3


def test_matches_of_lost_records_that_are_read_after_the_resumption_hide_no_new_events() -> None:
    """A trigger partition may be behind. They raised the marks again that the resumption had lowered."""
    pool = Pool(EACH)
    pool.start()
    pool.emit("x", times=4)
    while pool.log(TRIGGER).end == 0:
        pool.run(1, pass_ms=0)
    assert pool.fired() == []
    pool.kill()
    del pool.log(EVENT).entries[1:]
    pool.resume(EVENT, 1, end=1)
    pool.start("two")
    pool.run()
    assert len(pool.fired()) == 4
    pool.emit("x", times=3)
    pool.run()
    assert len(pool.fired()) == 4 + 3
    pool.commit_by_hand(EVENT, 1)
    pool.kill("two")
    pool.start("three")
    assert len(pool.fired()) == 4 + 3  # the new events' marks count


def test_a_resumption_without_a_lost_end_repeats_nothing() -> None:
    pool = used(1, EACH)
    del pool.cluster.group.offsets[EVENT]
    pool.resume(EVENT, 0, end=3)
    pool.start()
    pool.emit("x", times=2)
    pool.run()
    assert len(pool.fired()) == 3 + 2


def test_the_engine_of_a_trigger_partition_applies_a_resumption_before_the_matches_behind_it() -> None:
    pool = cut_off()
    pool.start()
    pool.resume(EVENT, 1, end=1)
    pool.run()
    pool.emit("x")
    pool.run()
    value = pool.records(TRIGGER)[-1][1]
    match = msgspec.msgpack.decode(value or b"", type=MatchRecord)
    key = registry_key("resume", *EVENT)
    [resumed] = [offset for offset, entry in pool.log(REGISTRY).history() if entry.key == key]
    assert match.resumed == resumed + 1
    task = pool.engines["one"].ownership.triggers[TRIGGER]
    assert task.needs_registry(match) >= match.resumed


def test_later_marks_beyond_that_end_stay() -> None:
    """The resumption is applied once: later events may lie where the lost ones did."""
    pool = cut_off()
    pool.resume(EVENT, 1, end=1)
    pool.start()
    pool.emit("x", times=5)
    pool.run()
    count = len(pool.fired())
    pool.kill()
    pool.commit_by_hand(EVENT, 1)
    pool.start("two")
    assert len(pool.fired()) == count == 8
