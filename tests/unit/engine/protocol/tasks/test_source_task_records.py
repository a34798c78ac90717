"""The event hop: which events become dead letters, and what it writes for a match."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from interlock import Event, all_of, event
from interlock.conditions import MatcherIndex, count
from interlock.engine.protocol.outputs import MAX_PASS_BYTES
from interlock.engine.protocol.tasks import source_task
from interlock.engine.protocol.tasks.source_task import MAX_TARGETS
from interlock.engine.records import BusRecord, Registration
from interlock.engine.records.sizes import MAX_ATTRIBUTE_BYTES, MAX_INLINE_BYTES, MAX_INTERNAL_BYTES
from interlock.engine.registry.registry import Registered
from interlock.events.kafka import encode

from tests.unit.engine.protocol import source_world
from tests.unit.engine.protocol.source_world import FAR, PARTITIONS, TP, World


def test_a_record_that_is_no_event_is_dead_lettered_once_and_not_again_by_a_scan(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.put(b"k", b"payload", [("ce_type", b"a")])
    with caplog.at_level(logging.WARNING, "interlock.engine"):
        world.run()
    world.register("w", "a", 0)
    world.run()
    assert world.dead == [b"payload"]
    assert "b-event[0]@0" in caplog.text
    assert world.committed.offset == 1


def test_a_wanted_event_without_a_timestamp_is_dead_lettered_once_with_the_reason() -> None:
    """It counted for no wait, and only `explain` said so."""
    world = World()
    world.listed = True
    every = event(type="org.apache.kafka.record")
    wanted = world.register("wanted", every, 0)
    world.put(b"k", b"1", None, timestamp_ms=-1)
    world.put(b"k", b"2", None)
    world.run()
    later = world.register("later", every, 0)
    world.run()
    assert (world.reached(wanted), world.reached(later)) == ([1], [1])
    assert world.dead == [b"1"]
    assert world.reasons[0].startswith("the record has no timestamp, so it is before each since")


def test_an_event_without_a_timestamp_that_nobody_wants_is_no_dead_letter() -> None:
    world = World()
    world.register("w", "a", 0)
    world.append_all(("b", -1))
    world.run()
    assert (world.dead, world.committed.offset) == ([], 1)


def test_an_event_that_only_a_scan_cannot_match_is_dead_lettered_once_and_the_scan_continues(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    before = world.register("before", "a", 0)
    world.append_all(("a", 5), ("a", 6))
    world.run()
    w = world.register("w", "a", 0)
    lookup = MatcherIndex.lookup

    def raises(self: MatcherIndex[Registered], made: Event) -> Any:
        if self is not world.index and made.id == "0":
            raise ZeroDivisionError("of a scan's index")
        return lookup(self, made)

    monkeypatch.setattr(MatcherIndex, "lookup", raises)
    with caplog.at_level(logging.WARNING, "interlock.engine"):
        world.run()
    assert (world.reached(before), world.reached(w)) == ([0, 1], [1])
    assert len(world.dead) == 1
    assert "A look-back could not match it" in caplog.text


def test_a_matcher_that_raises_makes_the_event_a_dead_letter_and_the_next_is_matched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    w = world.register("w", "a", 0)
    world.append_all(("a", 5), ("a", 6))
    task = world.task()
    lookup, calls = world.index.lookup, []

    def raises(made: Event) -> Any:
        calls.append(made)
        if len(calls) == 1:
            raise ZeroDivisionError("of a filter")
        return lookup(made)

    task.apply(1, None)
    monkeypatch.setattr(world.index, "lookup", raises)
    world.commit(task, world.run_pass(task, FAR, 0))
    assert len(world.dead) == 1
    assert world.reached(w) == [1]


@pytest.mark.parametrize("size", [MAX_INLINE_BYTES, MAX_INLINE_BYTES + 1, MAX_INTERNAL_BYTES])
def test_data_too_large_for_a_match_are_referred_to(size: int) -> None:
    world = World()
    w = world.register("w", "a", 0)
    world.append("a", 5, value=b"0" * size)
    world.run()
    assert world.reached(w) == [0]
    made = world.matches[0][1].event
    if size > MAX_INLINE_BYTES:
        assert (made.data, made.attributes["dataref"]) == (None, "kafka:b-event/0/0")
    else:
        assert len(made.data or b"") == size
        assert "dataref" not in made.attributes


def test_a_value_to_count_is_read_from_data_that_the_match_does_not_hold() -> None:
    """Q5: the trigger partition gets the value, and the event without its data."""
    world = World()
    world.register("w", count(event("a"), 2, distinct="data.run"), 0)
    large = {"run": 20261120, "more": "x" * MAX_INLINE_BYTES}
    world.append("a", 5, value=json.dumps(large).encode())
    world.append("a", 5, value=b'{"Run": 1}')
    world.run()
    [target] = [target for _, match in world.matches for target in match.targets]
    assert (target.matchers, target.values) == ((0,), {0: "2026-11-20"})


def test_a_key_is_passed_as_the_event_writes_it_if_the_match_does_not_hold_the_data() -> None:
    """K17"""
    world = World()
    condition = event("a", by="data.customer")
    world.register("each", condition, 0, kind="durable")
    world.register("one", condition, 0, key="1999-12-31")
    for customer in (19991231, "c1"):
        large = {"customer": customer, "more": "x" * MAX_INLINE_BYTES}
        world.append("a", 5, value=json.dumps(large).encode())
    world.append("a", 5, value=b'{"customer": 19991231}')
    world.run()
    found = [(target.key, target.written) for _, match in world.matches for target in match.targets]
    assert sorted(found, key=str) == [
        ("1999-12-31", "19991231"),
        *3 * [("1999-12-31", None)],
        ("c1", None),
    ]


def test_a_filter_sees_data_that_the_match_does_not_hold() -> None:
    world = World()
    w = world.register("w", event("a", where="data.k == 1"), 0)
    world.append("a", 5, value=json.dumps({"k": 1, "more": "x" * MAX_INLINE_BYTES}).encode())
    world.append("a", 5, value=json.dumps({"k": 2, "more": "x" * MAX_INLINE_BYTES}).encode())
    world.run()
    assert world.reached(w) == [0]


@pytest.mark.parametrize("letter", ["s", "é", "日", "\U0001f600"])
@pytest.mark.parametrize("plain", [False, True])
def test_an_event_whose_attributes_fit_into_no_record_becomes_a_dead_letter(plain: bool, letter: str) -> None:
    """Of a plain record the key becomes the subject."""
    world, large = World(), letter.encode() * (MAX_ATTRIBUTE_BYTES // len(letter.encode()) + 1)
    world.listed = plain
    world.register("w", "org.apache.kafka.record" if plain else "a", 0)
    if plain:
        world.put(large, b"v", None)
    else:
        key, value, headers = encode(Event.of("a", "/s", id="1"))
        world.put(key, value, [*headers, ("ce_subject", large)])
    world.run()
    assert len(world.dead) == 1
    assert world.matches == []


def test_a_match_with_all_it_may_hold_fits_in_a_record() -> None:
    """The most attributes, the most data, and the longest targets."""
    world = World()
    for n in range(MAX_TARGETS):
        world.register(f"w{n}", event("a", by="data.k"), 0, "ü" * 250, kind="durable")
    key, value, headers = encode(Event.of("a", "/s", id="1", data={"k": "ü" * 250}))
    padding = [("ce_more", b"m" * (MAX_ATTRIBUTE_BYTES - 2000))]
    world.put(key, (value or b"") + b" " * (MAX_INLINE_BYTES - len(value or b"")), [*headers, *padding])
    world.run()  # asserts the size of each record
    assert sum(len(match.targets) for _, match in world.matches) == MAX_TARGETS


def test_more_targets_than_a_record_holds_travel_in_several_records() -> None:
    world = World()
    made = [world.register(f"w{n}", "a", 0) for n in range(9000)]
    world.append("a", 5)
    world.run()
    assert len(world.matches) > PARTITIONS
    assert all(len(match.targets) <= MAX_TARGETS for _, match in world.matches)
    assert all(world.reached(w) == [0] for w in made[::1000])
    assert sum(len(match.targets) for _, match in world.matches) == len(made)


def test_targets_with_many_values_to_count_travel_in_several_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 waits that counted a long value with 20 matchers each were one record of 10 MB. Brokers take at
    most 8 MB, so the engine ended, and each next owner with it."""
    monkeypatch.setattr(source_world, "PARTITIONS", 1)
    world = World()
    condition = all_of(*(count(event("a", label=f"m{n}"), 2, distinct="data.url") for n in range(20)))
    made = [world.register(f"w{n}", condition, 0) for n in range(850)]
    world.append("a", 5, value=json.dumps({"url": "ü" * 250}).encode())
    world.run()  # asserts the size of each record
    assert sum(len(match.targets) for _, match in world.matches) == len(made)
    assert all(world.reached(w) == [0] for w in made[::100])


def test_a_match_of_a_large_event_has_fewer_targets_as_one_transaction_may_fire_all() -> None:
    world = World()
    for n in range(1500):
        world.register(f"w{n}", "a", 0)
    world.put(*encode(Event.of("a", "/s", id="1", data="x" * 60_000)))
    world.run()
    assert sum(len(match.targets) for _, match in world.matches) == 1500
    assert all(len(match.targets) * 60_000 <= MAX_PASS_BYTES for _, match in world.matches)


def test_all_matchers_of_a_registration_that_an_event_met_travel_as_one_target() -> None:
    world = World()
    world.register("w", event("a") & event("a", subject="s") & event("b"), 0)
    world.put(*encode(Event.of("a", "/s", id="1", subject="s")))
    world.run()
    [(_, match)] = world.matches
    [target] = match.targets
    assert target.matchers == (0, 1)


def test_one_registration_is_never_divided_over_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event may reach it under several keys, and they are evaluated as one origin."""
    monkeypatch.setattr(source_task, "MAX_TARGETS", 2)
    world = World()
    two_paths = event("a", by="data.k") & event("a", by="data.l")
    for n in range(9):
        world.register(f"w{n}", two_paths, 0, kind="one-shot", key=None)
    world.append("a", 5, value=b'{"k":"1","l":"2"}')
    world.run()
    targets: set[str] = set()
    for _, match in world.matches:
        here = {target.incarnation for target in match.targets}
        assert not here & targets
        targets |= here
    assert len(targets) == 9


def test_a_durable_subscription_is_spread_by_its_keys_and_a_one_shot_is_not() -> None:
    world = World()
    spread = world.register("d", event("a", by="data.k"), 0, kind="durable")
    once = world.register("o", event("a", by="data.k"), 0)
    for n in range(30):
        world.append("a", 5, value=b'{"k":"%d"}' % n)
    world.run()

    def places(registration: Registration) -> set[int]:
        return {
            partition
            for partition, match in world.matches
            if any(target.incarnation == registration.incarnation for target in match.targets)
        }

    assert places(spread) == set(range(PARTITIONS))
    assert len(places(once)) == 1


def forged(kind: str) -> list[tuple[str, bytes]]:
    return encode(Event.of(kind, "/airflow/ledger", id="1", subject="ledger"))[2]


@pytest.mark.parametrize("kind", ["interlock.airflow.dag_run.succeeded", "com.shop.orders.done"])
def test_a_record_of_a_listed_topic_is_plain_unless_its_owner_says_otherwise(kind: str) -> None:
    """A right to write to any listed topic was a right to forge any event (an attacker)."""
    world = World()
    world.listed = True
    claimed = world.register("claimed", kind, 0)
    plain = world.register("plain", event("org.apache.kafka.record", source=TP.topic), 0)
    world.put(b"k", b"{}", forged(kind))
    world.run()
    assert (world.reached(claimed), world.reached(plain), world.dead) == ([], [0], [])


def test_a_topic_that_holds_cloudevents_holds_no_types_of_interlocks_own() -> None:
    world = World()
    world.listed = True
    world.registry.bus = BusRecord(partitions=1, topics=(TP.topic,), cloudevents=(TP.topic,))
    own = world.register("own", "interlock.airflow.dag_run.succeeded", 0)
    other = world.register("other", "com.shop.orders.done", 0)
    world.put(b"k", b"{}", forged("interlock.airflow.dag_run.succeeded"))
    world.put(b"k", b"{}", forged("com.shop.orders.done"))
    world.run()
    assert (world.reached(own), world.reached(other), len(world.dead)) == ([], [1], 1)


def test_what_the_owner_says_holds_from_then_on_without_a_restart() -> None:
    world = World()
    world.listed = True
    task, record = world.task(), world.put(b"k", b"{}", forged("com.shop.orders.done"))
    read = []
    for cloudevents in ((), (TP.topic,), ()):
        world.registry.bus = BusRecord(partitions=1, topics=(TP.topic,), cloudevents=cloudevents)
        read.append(task._read(record).type)
    assert read == ["org.apache.kafka.record", "com.shop.orders.done", "org.apache.kafka.record"]
