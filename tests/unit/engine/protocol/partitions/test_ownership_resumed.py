"""Ownership: how a partition that stopped goes on where an administrator says."""

from __future__ import annotations

import pytest
from interlock import event
from interlock.engine.records import Registration, registry_key

from tests.kit.pool import EVENT, REGISTRY, TRIGGER
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


@pytest.mark.parametrize(("said", "first"), [(-5, 5), (0, 5), (6, 6), (10**9, 7)])
def test_a_partition_resumes_within_its_existing_offsets(said: int, first: int) -> None:
    pool = used(1, EACH)
    pool.emit("x", times=4)
    pool.cluster.delete_below(EVENT, 5)
    pool.resume(EVENT, said)
    pool.start()
    assert len(pool.fired()) == 3 + (7 - first)


def test_a_resumption_counts_once() -> None:
    """The source record that the first commit writes stands behind it."""
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


def test_a_resumption_for_the_topic_before_it_was_made_again_does_not_count() -> None:
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


def test_going_on_from_the_start_repeats_nothing() -> None:
    pool = used(1, EACH)
    del pool.cluster.group.offsets[EVENT]
    pool.emit("x")
    pool.resume(EVENT, 0)
    pool.start()
    assert len(pool.fired()) == 4


# With unreadable metadata and without a skip all registrations are applied anew, and look back.
SKIPS = [("gone", 0, 3), ("gone", 1, 2), ("gone", 3, 0)]
SKIPS += [("unreadable", 0, 3), ("unreadable", 1, 3), ("unreadable", 2, 1)]


@pytest.mark.parametrize(("metadata", "said", "fired"), SKIPS)
def test_look_backs_do_not_read_what_a_resumed_partition_skips(metadata: str, said: int, fired: int) -> None:
    """Of before the resumption, that is: a later registration looks back."""
    pool = used()
    pool.register(EACH)
    if metadata == "unreadable":
        pool.commit_by_hand(EVENT, 1, "nonsense")
    else:
        del pool.cluster.group.offsets[EVENT]
    pool.resume(EVENT, said)
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
