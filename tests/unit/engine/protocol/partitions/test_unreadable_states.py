"""Records in the state topic that are no states: garbage that somebody else or a fault has written."""

from __future__ import annotations

import logging

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import event
from interlock.engine.bus import TopicPartition
from interlock.engine.protocol.partitions.ownership import RETRY_UNREADABLE_S
from interlock.engine.records import (
    BusRecord,
    MetaRecord,
    Registration,
    encode_msgpack,
    partition_of,
    registry_key,
)

from tests.kit.pool import EVENT, REGISTRY, STATE, Pool

PAIR = Registration.of("pair", event("x") & event("y"), None, 0)
KEYED = Registration.of("keyed", event("x", by="data.k") & event("y", by="data.k"), None, 0, kind="durable")
OTHER = Registration.of("other", event("x"), None, 0)
GARBAGE = b"\xde\xad\xbe\xef"


def meta_key(registration: Registration) -> bytes:
    return registration.incarnation.encode()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"garbage", GARBAGE),
        (b"gone/key", b""),
        (b"\xff\xfe", b"not a key either"),
        (b"", GARBAGE),
        (b"/", GARBAGE),
        (b"looks like a later release", encode_msgpack(MetaRecord(9, 0, {}, False, False, None))),
        (b"gone/looks like a later release", b"\x91\x09"),
    ],
)
def test_garbage_that_no_registration_needs_is_named_removed_and_stops_nothing(
    key: bytes, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A garbage record in the state topic (a hand-written producer)."""
    pool = Pool(PAIR)
    pool.write(STATE, key, value)
    with caplog.at_level(logging.WARNING, "interlock.engine"):
        engine = pool.start()
    assert f"{STATE}@0" in caplog.text
    assert "the record is removed" in caplog.text
    pool.emit("x")
    pool.emit("y")
    pool.run()
    assert pool.fired() == [("pair", "met")]
    assert engine.problems.all() == []
    assert ((key, None) in pool.records(STATE)) == bool(key)
    pool.kill()
    caplog.clear()
    pool.start("two")
    assert "removed" not in caplog.text or not key


@settings(max_examples=30, deadline=None)
@given(key=st.binary(max_size=20), value=st.binary(max_size=40))
def test_no_record_of_the_state_topic_ends_an_engine(key: bytes, value: bytes) -> None:
    pool = Pool(PAIR)
    pool.write(STATE, key, value)
    pool.start(passes=8)
    pool.emit("x")
    pool.emit("y")
    pool.run(8)
    assert pool.fired() == [("pair", "met")]


def damaged(partitions: int = 2) -> tuple[Pool, TopicPartition]:
    """A pool with a half-met pair whose state record is then overwritten; and its state partition."""
    pool = Pool(PAIR, partitions=partitions)
    pool.emit("x")
    pool.start()
    pool.kill()
    [state] = [
        tp
        for tp in (TopicPartition(STATE.topic, number) for number in range(partitions))
        if any(key == meta_key(PAIR) for key, _ in pool.records(tp))
    ]
    pool.write(state, meta_key(PAIR), GARBAGE)
    return pool, state


def test_a_state_that_is_needed_and_cannot_be_read_pauses_its_partition_alone_and_is_named() -> None:
    """A garbage record over a state in the state topic."""
    pool, state = damaged()
    engine = pool.start("two")
    [text] = engine.problems.all()
    assert text.startswith(f"b-trigger[{state.partition}] is paused: a state record cannot be read. {state}@")
    assert "'pair' needs such a record" in text
    assert "airflow interlock subscriptions cancel pair --bus b" in text
    pool.run(120)
    assert len(engine.partitions) == 2
    assert registry_key("problem", "b-trigger", state.partition) in [key for key, _ in pool.records(REGISTRY)]
    durable = [Registration.of(f"d{n}", event("x"), None, 0, kind="durable") for n in range(8)]
    for registration in durable:
        pool.register(registration)
    pool.emit("x")
    pool.run()
    assert 0 < len(pool.fired()) < 16
    assert ("pair", "met") not in pool.fired()


def test_a_partition_continues_when_its_state_was_mended() -> None:
    pool, state = damaged()
    good = next(value for key, value in pool.records(state) if key == meta_key(PAIR))
    engine = pool.start("two")
    pool.write(state, meta_key(PAIR), good)
    pool.cluster.now_ms += int(RETRY_UNREADABLE_S * 1000)
    pool.run()
    assert engine.problems.all() == []
    pool.emit("y")
    pool.run()
    assert pool.fired() == [("pair", "met")]


def test_a_cancelled_subscription_frees_the_partition_and_the_same_wait_begins_again() -> None:
    pool, state = damaged()
    engine = pool.start("two")
    pool.remove(PAIR)
    pool.register(PAIR, "n2")  # by the process of its task, at once
    pool.run(60)
    assert engine.problems.all() == []
    pool.emit("y")
    pool.run()
    assert pool.fired() == [("pair", "met")], "a scan finds x again"
    assert (meta_key(PAIR), GARBAGE) != pool.records(state)[-1]


def test_an_unreadable_record_that_a_later_one_replaced_does_not_count() -> None:
    pool, state = damaged(1)
    good = next(value for key, value in pool.records(state) if key == meta_key(PAIR))
    pool.write(state, meta_key(PAIR), good)
    engine = pool.start("two")
    assert engine.problems.all() == []


def test_one_unreadable_key_of_many_pauses_the_partition_until_its_subscription_is_changed() -> None:
    pool = Pool(KEYED)
    for key in ("a", "b"):
        pool.emit("x", {"k": key})
    pool.start()
    pool.kill()
    pool.write(STATE, meta_key(KEYED) + b"/a", GARBAGE)
    engine = pool.start("two")
    assert "'keyed' needs such a record" in engine.problems.all()[0]
    pool.register(msgspec.structs.replace(KEYED, incarnation="other", since_ms=1))
    pool.run(60)
    assert engine.problems.all() == []


def test_a_state_of_a_later_release_pauses_its_partition_alone() -> None:
    """It ended every engine, for ever: whoever may write to the state topic could stop the bus."""
    pool = Pool(PAIR, OTHER, partitions=2)
    paused, free = (partition_of("one-shot", each.subscription, "", 2) for each in (PAIR, OTHER))
    assert paused != free
    state = TopicPartition(STATE.topic, paused)
    pool.write(state, meta_key(PAIR), encode_msgpack(MetaRecord(9, 0, {}, False, False, None)))
    engine = pool.start()
    [text] = engine.problems.all()
    assert f"{state}@0 holds a MetaRecord of version 9" in text
    assert "Run the version that wrote it" in text
    pool.emit("x")
    pool.run()
    assert pool.fired() == [("other", "met")]


@pytest.mark.parametrize("value", [b"\x91\x00", encode_msgpack(MetaRecord(-7, 0, {}, False, False, None))])
def test_a_version_that_no_release_has_is_garbage_and_ends_no_engine(value: bytes) -> None:
    pool, _ = damaged(1)
    pool.write(STATE, meta_key(PAIR), value)
    [text] = pool.start("two").problems.all()
    assert "'pair' needs such a record" in text


def test_a_state_of_a_later_release_of_a_cancelled_subscription_is_removed() -> None:
    pool, state = damaged(1)
    pool.remove(PAIR)
    pool.write(state, meta_key(PAIR), encode_msgpack(MetaRecord(9, 0, {}, False, False, None)))
    assert pool.start("two").problems.all() == []
    pool.run()
    assert pool.records(state)[-1] == (meta_key(PAIR), None)


def test_a_state_of_a_later_release_that_was_removed_since_no_longer_counts() -> None:
    pool = Pool(PAIR)
    pool.write(STATE, b"some", encode_msgpack(MetaRecord(9, 0, {}, False, False, None)))
    pool.write(STATE, b"some", None)
    assert pool.start().problems.all() == []


def test_a_bus_without_garbage_is_unchanged() -> None:
    pool = Pool(PAIR)
    pool.write_bus_record(BusRecord(partitions=1))
    pool.emit("x")
    pool.start()
    assert pool.committed(EVENT).offset == 1  # type: ignore[union-attr]
