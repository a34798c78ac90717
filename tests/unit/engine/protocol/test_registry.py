"""The registry: a fold over the subscription topic that no record can stop."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock import event
from interlock.engine.bus import End, Record, TopicPartition
from interlock.engine.protocol.registry import Registry
from interlock.engine.records import BUS_KEY, BusRecord, Registration, RegistrationKey, encode_json

TOPIC = TopicPartition("bus-subscription", 0)
SOLO = event("solo")


def at(offset: int, key: bytes | None, value: bytes | None) -> Record:
    return Record(TOPIC, offset, 1000 + offset, key, value, None)


def registered(offset: int, registration: Registration, nonce: str = "n") -> Record:
    return at(offset, RegistrationKey(registration.incarnation, nonce).encode(), encode_json(registration))


def removed(offset: int, registration: Registration, nonce: str = "n") -> Record:
    return at(offset, RegistrationKey(registration.incarnation, nonce).encode(), None)


def read(*records: Record) -> Registry:
    registry = Registry()
    for record in records:
        registry.apply(record)
    return registry


A, A2, B = (Registration.of(s, SOLO, None, since) for s, since in (("a", 1), ("a", 2), ("b", 1)))


def test_the_first_record_of_an_incarnation_is_its_place_for_ever() -> None:
    registry = read(registered(3, A, "n1"), registered(4, A, "n2"))
    assert registry.get(A.incarnation).offset == 3
    assert registry.keys("a") == {f"{A.incarnation}:n1".encode(), f"{A.incarnation}:n2".encode()}
    assert registry.position == 5


def test_another_incarnation_replaces_the_one_before_and_keeps_its_keys_to_null() -> None:
    registry = read(registered(0, A))
    change = registry.apply(registered(1, A2))
    assert [gone.incarnation for gone in change.removed] == [A.incarnation]
    assert [new.incarnation for new in change.added] == [A2.incarnation]
    assert registry.get(A.incarnation) is None
    assert len(registry.keys("a")) == 2


def test_a_null_of_any_key_removes_the_incarnation_and_it_may_come_again_at_a_new_place() -> None:
    registry = read(registered(0, A, "n1"), registered(1, A, "n2"), removed(2, A, "n2"))
    assert registry.get(A.incarnation) is None
    registry.apply(removed(3, A, "n1"))
    assert registry.keys("a") == set()
    registry.apply(registered(4, A, "n3"))
    assert registry.get(A.incarnation).offset == 4


def test_the_end_moves_the_position_over_gaps_and_never_back() -> None:
    registry = read(registered(0, A))
    registry.apply(End(TOPIC, 9))
    assert registry.position == 9
    registry.apply(End(TOPIC, 4))
    assert registry.position == 9


def test_those_in_force_between_two_places_come_in_order() -> None:
    registry = read(registered(0, A), registered(1, B), registered(2, A2))
    assert [r.offset for r in registry.between(0, 3)] == [1, 2]
    assert [r.offset for r in registry.between(2, 3)] == [2]
    assert registry.between(3, 3) == []


def test_the_bus_record_is_no_registration() -> None:
    registry = read(at(0, BUS_KEY, encode_json(BusRecord(partitions=4))))
    assert (len(registry), registry.position) == (0, 1)
    assert registry.bus == BusRecord(partitions=4)


KEYED = event("a", by="data.day")
MIXED = KEYED & event("b")


def changed(**fields: Any) -> bytes:
    form = msgspec.json.decode(encode_json(Registration.of("x", SOLO, None, 1)))
    return msgspec.json.encode({**form, **fields})


@pytest.mark.parametrize(
    "value",
    [
        b"no JSON",
        b"\xff\xff",
        b'{"v":1}',
        changed(v=9),
        changed(v=[1]),
        changed(since_ms=10**20),
        changed(condition={"v": 1, "rubbish": True}),
        changed(condition=MIXED.to_json()),
        changed(condition=KEYED.to_json(), key=""),
        changed(condition=SOLO.to_json(), key="of nothing"),
    ],
    ids=[
        "text",
        "bytes",
        "incomplete",
        "version",
        "version-type",
        "since",
        "condition",
        "no-key-for-a-mixed-condition",
        "empty-key",
        "key-without-by",
    ],
)
def test_a_registration_that_cannot_be_matched_is_left_out_and_told_and_stops_nobody_else(
    value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """What the registry gives, the engine's index takes."""
    from interlock.conditions import MatcherIndex

    index: MatcherIndex[object] = MatcherIndex()
    registry = Registry()
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        for record in (registered(0, A), at(1, b"x:n", value), registered(2, B)):
            for added in registry.apply(record).added:
                index.add(added, added.condition, added.registration.key)
    assert [r.offset for r in registry.between(0, 3)] == [0, 2]
    assert registry.position == 3
    assert "bus-subscription[0]@1" in caplog.text


def test_a_condition_that_needs_timers_is_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    timed = Registration.of("t", SOLO.quiet("5m"), None, 1)
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        registry = read(registered(0, timed), registered(1, A))
    assert [r.offset for r in registry.between(0, 2)] == [1]
    assert "needs timers" in caplog.text


STEPS = st.lists(
    st.tuples(st.sampled_from([A, A2, B]), st.sampled_from(["n1", "n2"]), st.booleans()), max_size=25
)


@given(STEPS)
def test_the_fold_agrees_with_a_plain_reading_of_the_rules(
    steps: Sequence[tuple[Registration, str, bool]],
) -> None:
    registry = Registry()
    force: dict[str, tuple[str, int]] = {}  # subscription: incarnation, place
    keys: dict[str, set[bytes]] = {}
    for offset, (registration, nonce, register) in enumerate(steps):
        record = (registered if register else removed)(offset, registration, nonce)
        registry.apply(record)
        subscription, incarnation = registration.subscription, registration.incarnation
        current = force.get(subscription, ("", -1))[0]
        if register:
            keys.setdefault(subscription, set()).add(record.key or b"")
            if current != incarnation:
                force[subscription] = (incarnation, offset)
        else:
            keys.get(subscription, set()).discard(record.key or b"")
            if current == incarnation:
                del force[subscription]
    assert {(r.incarnation, r.offset) for r in registry.between(0, len(steps))} == set(force.values())
    assert len(registry) == len(force)
    for subscription in ("a", "b"):
        assert registry.keys(subscription) == keys.get(subscription, set())
