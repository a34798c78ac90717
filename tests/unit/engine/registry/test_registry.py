"""The registry: a fold over the subscription topic that no record can stop."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock import event
from interlock.conditions.filters import Where
from interlock.engine.bus import End, Record
from interlock.engine.records import (
    BUS_KEY,
    LEFTOVER,
    BusRecord,
    Registration,
    encode_json,
    registry_key,
)
from interlock.engine.registry.first_read import FirstRead
from interlock.engine.registry.registry import Registry
from msgspec.structs import replace

from tests.unit.engine.registry.registry_log import (
    A2,
    D2,
    SOLO,
    TOPIC,
    A,
    B,
    D,
    at,
    key_of,
    leased,
    read,
    registered,
    removed,
)


def test_the_first_record_of_an_incarnation_is_its_place_for_ever() -> None:
    registry = read(registered(3, A, "n1"), registered(4, A, "n2"))
    assert registry.get(A.incarnation).offset == 3
    assert registry.keys("a") == {f"{A.incarnation}:n1".encode(), f"{A.incarnation}:n2".encode()}
    assert registry.position == 5


def test_a_known_incarnation_registered_again_has_its_new_limits_at_its_old_place() -> None:
    wider = msgspec.structs.replace(D, max_keys=7, at_limit="drop-oldest")
    registry = read(registered(0, D, "n1"))
    before = registry.get(D.incarnation)
    change = registry.apply(registered(1, wider, "n2"))
    found = registry.get(D.incarnation)
    assert found is before
    assert (found.offset, found.registration.max_keys, found.registration.at_limit) == (0, 7, "drop-oldest")
    assert (change.added, change.removed) == ([], [])


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


def test_a_condition_with_timers_is_in_force_with_the_time_of_its_first_record() -> None:
    timed = Registration.of("t", SOLO.quiet("5m"), None, 1)
    registry = read(registered(7, timed), registered(8, timed, "n2"))
    assert registry.get(timed.incarnation).timestamp_ms == 1007


KEYED = event("a", by="data.day")
MIXED = KEYED & event("b")


def changed(**fields: Any) -> bytes:
    form = msgspec.json.decode(encode_json(Registration.of("x", SOLO, None, 1)))
    return msgspec.json.encode({**form, **fields})


UNMATCHABLE = {
    "text": b"no JSON",
    "bytes": b"\xff\xff",
    "incomplete": b'{"v":1}',
    "version": changed(v=0),
    "version-type": changed(v=[1]),
    "since": changed(since_ms=10**20),
    "condition": changed(condition={"v": 1, "rubbish": True}),
    "condition-type": changed(condition="text"),
    "condition-bytes": changed().replace(b'"type"', b'"\xfftype"'),
    "no-key-for-a-mixed-condition": changed(condition=MIXED.to_json()),
    "empty-key": changed(condition=KEYED.to_json(), key=""),
    "key-without-by": changed(condition=SOLO.to_json(), key="of nothing"),
}


@pytest.mark.parametrize("value", UNMATCHABLE.values(), ids=UNMATCHABLE)
def test_a_registration_that_cannot_be_matched_is_ignored_and_logged_and_stops_no_other(
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


def test_a_registration_whose_condition_the_index_cannot_take_is_ignored_and_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended each engine, again at each start. No condition is known; here the index fails by a fault."""
    monkeypatch.setattr(Where, "equalities", {("event", "subject"): "\ud800"})
    untaken = Registration.of("untaken", event("t", where="data.k == 'v'"), None, 1)
    registry = Registry()
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        for record in (registered(0, A), registered(1, untaken), registered(2, B), registered(3, untaken)):
            registry.apply(record)
    assert [r.offset for r in registry.between(0, 4)] == [0, 2]
    assert registry.by_name("untaken") is None
    assert registry.position == 4
    for place in ("bus-subscription[0]@1", "bus-subscription[0]@3"):
        assert place in caplog.text
    assert "the condition of 'untaken' cannot be indexed" in caplog.text


@pytest.mark.parametrize("first", [True, False])
def test_a_registration_whose_key_names_another_incarnation_is_ignored_and_named_with_what_to_do(
    first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It was in force, and no null of its key removed it: `subscriptions cancel` had no effect."""
    registry = Registry()
    reader: Any = FirstRead(registry) if first else registry
    reads = reader.take if first else reader.apply
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        for record in (registered(0, A), at(1, key_of(A, "m"), encode_json(A2)), registered(2, B)):
            reads(record)
        if first:
            reader.finish()
    assert [r.incarnation for r in registry.between(0, 3)] == [A.incarnation, B.incarnation]
    assert registry.keys("a") == {key_of(A)}
    assert f"its key names the incarnation {A.incarnation!r}, its value {A2.incarnation!r}" in caplog.text
    assert f"a null with its key, {key_of(A, 'm')!r}, and the header 'interlock_leftover'" in caplog.text
    registry.apply(replace(removed(3, A, "m"), headers=LEFTOVER))
    assert registry.get(A.incarnation).offset == 0


# -- shared conditions


def test_registrations_of_one_form_share_one_condition_which_goes_with_the_last_of_them() -> None:
    first, second = (Registration.of(name, KEYED, "1", 1) for name in ("first", "second"))
    registry = read(registered(0, first), registered(1, second), registered(2, A))
    shared = registry.get(first.incarnation).condition
    assert registry.get(second.incarnation).condition is shared
    assert registry.get(A.incarnation).condition == SOLO
    kept = weakref.ref(shared)
    del shared
    registry.apply(removed(3, first))
    assert kept() is registry.get(second.incarnation).condition
    registry.apply(removed(4, second))
    gc.collect()
    assert kept() is None


def test_each_registration_that_shares_a_condition_checks_that_its_key_fits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    form = Registration.of("x", MIXED, "1", 1)
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        registry = read(
            registered(0, form), registered(1, msgspec.structs.replace(A, condition=form.condition))
        )
    assert [r.offset for r in registry.between(0, 9)] == [0]
    assert "bus-subscription[0]@1" in caplog.text


# -- replaced


def test_the_successor_of_a_replaced_incarnation_is_known() -> None:
    registry = read(registered(0, D), registered(1, D2))
    assert registry.get(D.incarnation) is None
    assert registry.successor(D.incarnation) is registry.get(D2.incarnation)
    registry.apply(removed(2, D2))
    assert registry.successor(D.incarnation) is None


def test_a_removed_incarnation_has_no_successor() -> None:
    registry = read(registered(0, A), removed(1, A))
    assert registry.successor(A.incarnation) is None
    assert registry.successor("unheard of") is None


def test_a_record_of_a_replaced_incarnation_puts_it_in_force_again_at_a_new_place() -> None:
    """Another triggerer still has the earlier DAG file: the last registration wins."""
    registry = read(registered(0, D), registered(1, D2))
    change = registry.apply(registered(2, D, "n2"))
    assert [gone.incarnation for gone in change.removed] == [D2.incarnation]
    assert registry.get(D.incarnation).offset == 2


STEPS = st.lists(
    st.tuples(st.sampled_from([A, A2, B]), st.sampled_from(["n1", "n2"]), st.booleans()), max_size=25
)


@given(STEPS)
def test_the_registry_agrees_with_a_plain_reading_of_the_rules(
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


FAULT = "the Kafka client cannot read its headers: UnicodeDecodeError()"


def unreadable(record: Record) -> Record:
    return replace(record, headers=None, fault=FAULT)


@pytest.mark.parametrize(
    "record",
    [
        removed(1, A),
        registered(1, B),
        at(1, BUS_KEY, encode_json(BusRecord(partitions=9))),
        at(1, registry_key("source", "t", 0), None),
        leased(1, A),
    ],
    ids=["a removal", "a registration", "the bus record", "about a partition", "a lease"],
)
def test_a_record_that_the_client_cannot_unpack_is_named_and_changes_nothing(
    record: Record, caplog: pytest.LogCaptureFixture
) -> None:
    """A header whose name is not UTF-8 (confluent-kafka): it could be that of a leftover's null."""
    for first in (False, True):
        registry = Registry()
        reader: Any = FirstRead(registry) if first else registry
        take = reader.take if first else reader.apply
        take(registered(0, A))
        with caplog.at_level(logging.ERROR, "interlock.engine"):
            take(unreadable(record))
        if first:
            reader.finish()
        assert [r.incarnation for r in registry.between(0, 9)] == [A.incarnation]
        assert (registry.bus, registry.position) == (None, 2)
        assert f"{TOPIC}@1 is ignored: {FAULT}" in caplog.text


def test_a_key_that_is_not_utf8_is_no_registrations(caplog: pytest.LogCaptureFixture) -> None:
    """Waits and tasks write nulls for the keys of a registration: they must be able to name each."""
    key = f"{A.incarnation}:".encode() + b"\xff"
    registry = read(registered(0, A), at(1, key, encode_json(A)), at(2, key, None))
    assert registry.keys("a") == {key_of(A)}
    assert registry.get(A.incarnation) is not None


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "a\0", "é", "a" * 250, "a\nb"])
def test_a_listed_name_that_no_topic_can_have_is_left_out(name: str) -> None:
    """No consumer can subscribe to it: engines with it did nothing any more."""
    record = BusRecord(partitions=4, topics=("orders", name, "orders"), cloudevents=("orders",))
    registry = read(at(0, BUS_KEY, encode_json(record)))
    assert registry.bus == BusRecord(partitions=4, topics=("orders",), cloudevents=("orders",))


@pytest.mark.parametrize("partitions", [b"0", b"-1", b"null", b"4.5", b'"4"'])
def test_a_bus_record_without_a_usable_number_of_partitions_is_ignored(partitions: bytes) -> None:
    """No subscription could be given to a partition with it."""
    damaged = b'{"v":1,"partitions":%s}' % partitions
    registry = read(at(0, BUS_KEY, encode_json(BusRecord(partitions=4))), at(1, BUS_KEY, damaged))
    assert registry.bus == BusRecord(partitions=4)
