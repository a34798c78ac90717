"""Matches that cannot be read: garbage becomes a dead letter, a later version's pauses its partition."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from interlock import Event, event
from interlock.engine.bus import TopicPartition
from interlock.engine.protocol.partitions import registry_reader
from interlock.engine.protocol.partitions.ownership import RETRY_UNREADABLE_S
from interlock.engine.records import MatchRecord, MatchTarget, Registration, encode_msgpack, partition_of

from tests.kit.pool import DEAD, EVENT, TRIGGER, Pool

PAIR = Registration.of("pair", event("x") & event("y"), None, 0)
ONE = Registration.of("one", event("x"), None, 0)
FAR = Registration.of("far", event("y"), None, 0)


@pytest.mark.parametrize("value", [b"rubbish", b"", None, b"\x91\xc3", b"\x97" + b"\x01" * 7])
def test_a_record_in_the_trigger_topic_that_is_no_match_is_dead_lettered_and_stops_nothing(
    value: bytes | None,
) -> None:
    pool = Pool(PAIR)
    pool.write(TRIGGER, b"k", value)
    pool.emit("x")
    pool.emit("y")
    pool.start()
    assert pool.fired() == [("pair", "met")]
    assert pool.records(DEAD) == [(b"k", value)]
    headers = dict(pool.log(DEAD).entries[0].headers or ())
    assert headers["interlock_stage"] == b"trigger"
    assert headers["interlock_origin"] == b"b-trigger[0]@0"


def test_a_record_that_is_no_match_is_passed_even_where_nothing_follows() -> None:
    pool = Pool()
    pool.write(TRIGGER, None, b"rubbish")
    pool.start()
    assert pool.committed(TRIGGER).offset == 1
    assert len(pool.records(DEAD)) == 1


@pytest.mark.parametrize("resumed", [True, False])
def test_a_match_that_needs_what_the_registry_does_not_have_is_dead_lettered_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, resumed: bool
) -> None:
    """No engine writes such a match; whoever else did would end every engine, for ever."""
    pool = Pool(ONE)
    pool.start()
    monkeypatch.setattr(registry_reader, "STALL_S", -1.0)
    target = MatchTarget(0 if resumed else 2**40, ONE.incarnation, (0,), "")
    made = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "x"})
    match = MatchRecord(1, EVENT.topic, 0, 7, 0, made, [target], resumed=2**40 if resumed else 0)
    pool.write(TRIGGER, b"k", encode_msgpack(match))
    pool.emit("x")
    pool.run()
    assert pool.fired() == [("one", "met")]
    assert len(pool.records(DEAD)) == 1
    reason = dict(pool.log(DEAD).entries[0].headers or ())["interlock_reason"]
    assert b"is needed; it ends at" in (reason or b"")


@pytest.mark.parametrize("value", [[9, "t", 0, 0, 0, [{}, None], []], [9, "another form"]])
def test_a_match_of_a_later_version_is_never_passed_by(value: Any) -> None:
    """It is not lost: the version that wrote it can read it. It ended every engine; now the others go on."""
    pool = Pool(ONE, FAR, partitions=2)
    paused, free = (partition_of("one-shot", each.subscription, "", 2) for each in (ONE, FAR))
    assert paused != free
    trigger = TopicPartition(TRIGGER.topic, paused)
    engine = pool.start()
    pool.emit("x")
    pool.run(2)
    at = pool.write(trigger, None, msgspec.msgpack.encode(value))
    pool.emit("y")
    pool.run(60)
    assert sorted(pool.fired()) == [("far", "met"), ("one", "met")]
    assert pool.committed(trigger).offset == at
    [text] = engine.problems.all()
    assert f"{trigger}@{at} holds a MatchRecord of version 9" in text
    assert f"topics resume {trigger.topic} {paused} --from" in text
    pool.log(trigger).entries[at] = pool.log(trigger).entries[at]._replace(value=None)
    pool.cluster.now_ms += int(RETRY_UNREADABLE_S * 1000)
    pool.run(60)
    assert engine.problems.all() == []
    assert pool.committed(trigger).offset == at + 1


def test_a_trigger_partition_is_resumed_when_a_match_of_a_later_version_is_removed() -> None:
    """What its message says: kafka-delete-records.sh, then topics resume."""
    pool = Pool(ONE)
    engine = pool.start()
    at = pool.write(TRIGGER, None, msgspec.msgpack.encode([9, "another form"]))
    pool.emit("x")
    pool.run(10)
    assert len(engine.problems.all()) == 1
    pool.log(TRIGGER).start = at + 1
    pool.resume(TRIGGER, at + 1)
    pool.run(60)
    assert engine.problems.all() == []
    assert pool.fired() == [("one", "met")]


def test_matches_before_one_of_a_later_version_are_processed() -> None:
    pool = Pool(PAIR)
    pool.start()
    pool.emit("x")
    pool.emit("y")
    while pool.log(TRIGGER).end == 0:
        pool.run(1, pass_ms=0)
    pool.write(TRIGGER, None, msgspec.msgpack.encode([9, "another form"]))
    pool.run(60)
    assert pool.fired() == [("pair", "met")]
