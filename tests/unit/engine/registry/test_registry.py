"""The registry: a fold over the subscription topic that no record can stop."""

from __future__ import annotations

import gc
import json
import logging
import weakref
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import event
from interlock.engine.bus import End, Record, TopicPartition
from interlock.engine.errors import UnknownVersion
from interlock.engine.records import (
    BUS_KEY,
    LEFTOVER,
    BusRecord,
    FailingRecord,
    LeaseRecord,
    ProblemRecord,
    Registration,
    ResumeRecord,
    SourceRecord,
    encode_json,
    registry_key,
    sink_key,
)
from interlock.engine.registry.first_read import FirstRead
from interlock.engine.registry.registry import Registry

from tests.unit.engine.registry.registry_log import (
    A2,
    SOLO,
    TOPIC,
    A,
    B,
    at,
    key_of,
    leased,
    read,
    registered,
    removed,
)


def cleared_away(offset: int, key: bytes) -> Record:
    return at(offset, key, None)._replace(headers=LEFTOVER)


D, D2 = (Registration.of("d", SOLO, None, since, kind="durable") for since in (1, 2))


def test_the_last_sink_record_of_each_subscription_is_kept_until_a_null_removes_it() -> None:
    first, last = (at(n, sink_key("one/deliver/d"), value) for n, value in ((3, b"first"), (4, b"last")))
    other, removed_one = at(5, sink_key("other"), b"x"), at(6, sink_key("one/deliver/d"), None)
    registry, first_read = read(first, last, other), Registry()
    assert registry.sinks == {"one/deliver/d": b"last", "other": b"x"}
    registry.apply(removed_one)
    assert (registry.sinks, len(registry), registry.position) == ({"other": b"x"}, 0, 7)
    reading = FirstRead(first_read)
    for record in (first, last, other):
        reading.take(record)
    reading.finish()
    assert first_read.sinks == {"one/deliver/d": b"last", "other": b"x"}


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
    """Another pool still runs the earlier DAG file: the last registration wins, and that is logged."""
    registry = read(registered(0, D), registered(1, D2))
    change = registry.apply(registered(2, D, "n2"))
    assert [gone.incarnation for gone in change.removed] == [D2.incarnation]
    assert registry.get(D.incarnation).offset == 2


# -- the bus record


DECIDING = {
    b"bus": BusRecord(v=9, partitions=4),
    b"x:n": msgspec.structs.replace(Registration.of("x", SOLO, None, 1), v=9),
    b"lease/p/0": LeaseRecord(v=9, deployment="d", incarnations=[], host="h"),
    b"source/t/0": SourceRecord(v=9, topic_id="i"),
    b"resume/t/0": ResumeRecord(v=9, topic_id="i", offset=0),
}
TELLING = {
    b"sink/one/deliver/s": SourceRecord(v=9, topic_id="any"),
    b"problem/t/0": ProblemRecord(v=9, text="x"),
    b"failing/p": FailingRecord(v=9, deployment="d", host="h", count=1, since_ms=0, text="x"),
}


@pytest.mark.parametrize("key", DECIDING)
def test_nothing_may_be_decided_without_a_record_of_a_later_version(key: bytes) -> None:
    """It was ignored: events of that registration were passed over, waits of that lease swept."""
    registry = read(registered(0, A), at(1, key, encode_json(DECIDING[key])), registered(2, B))
    with pytest.raises(UnknownVersion) as raised:
        registry.require_known()
    text = str(raised.value)
    assert text.startswith("bus-subscription[0]@1 holds a ")
    assert "of version 9; this Interlock reads 1. Upgrade this process" in text
    assert f"write a null with its key, {key!r}" in text
    assert ([r.offset for r in registry.between(0, 9)], registry.position) == ([0, 2], 3)


@pytest.mark.parametrize("key", TELLING)
def test_a_record_of_a_later_version_that_only_tells_something_is_named_and_ends_nothing(key: bytes) -> None:
    registry = read(at(1, key, encode_json(TELLING[key])))
    registry.require_known()
    assert "bus-subscription[0]@1 holds a " in registry.unknown[key]
    assert (registry.problems, registry.failing) == ({}, {})


@pytest.mark.parametrize("key", [*DECIDING, *TELLING])
@pytest.mark.parametrize("first_read", [False, True])
def test_a_null_for_its_key_ends_what_a_record_of_a_later_version_did(key: bytes, first_read: bool) -> None:
    """What the text says; and an administrator may have written the record by mistake."""
    last = at(3, key, encode_json(BusRecord(partitions=4)) if key == BUS_KEY else None)
    records = registered(0, A), at(1, key, encode_json({**DECIDING, **TELLING}[key])), registered(2, B), last
    registry = Registry()
    reading = FirstRead(registry)
    for record in records:
        if first_read:
            reading.take(record)
        else:
            registry.apply(record)
    reading.finish()
    registry.require_known()
    assert (registry.unknown, len(registry)) == ({}, 2)


def test_a_registration_of_a_later_version_that_a_null_removed_stops_no_first_read() -> None:
    """Also if its incarnation has other records, which the first read keeps."""
    again = encode_json(msgspec.structs.replace(A, v=9))
    registry = Registry()
    reading = FirstRead(registry)
    for record in (registered(0, A), at(1, key_of(A, "later"), again), registered(2, A2)):
        reading.take(record)
    reading.take(at(3, key_of(A, "later"), None))
    reading.finish()
    registry.require_known()


def test_a_bus_record_that_says_the_same_is_no_change() -> None:
    record = encode_json(BusRecord(partitions=4, topics=("orders",)))
    registry = read(at(0, BUS_KEY, record))
    assert not registry.apply(at(1, BUS_KEY, record)).bus


@pytest.mark.parametrize("value", [b"rubbish", None, b"{}x"])
def test_a_bus_record_that_cannot_be_read_leaves_the_one_before(
    value: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    registry = read(at(0, BUS_KEY, encode_json(BusRecord(partitions=4))))
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        assert not registry.apply(at(1, BUS_KEY, value)).bus
    assert registry.bus.partitions == 4
    assert "The bus record is ignored" in caplog.text


# -- partitions in use, and where they continue

ORDERS = TopicPartition("orders/eu", 3)


def place(kind: Any, offset: int, record: Any) -> Record:
    return at(offset, registry_key(kind, *ORDERS), None if record is None else encode_json(record))


def test_a_source_record_says_that_a_partition_is_in_use_whatever_its_topic_is_called() -> None:
    registry = read(place("source", 0, SourceRecord(topic_id="t")))
    assert registry.sources[ORDERS][1].topic_id == "t"
    registry.apply(place("source", 1, None))
    assert ORDERS not in registry.sources


def test_a_resumption_counts_until_the_partition_is_in_use_again() -> None:
    registry = read(place("source", 0, SourceRecord(topic_id="t")))
    assert registry.resumption(ORDERS) is None
    change = registry.apply(place("resume", 1, ResumeRecord(topic_id="t", offset=7)))
    assert change.resumed == ORDERS
    assert registry.resumption(ORDERS).offset == 7
    registry.apply(place("resume", 2, ResumeRecord(topic_id="t", offset=9)))
    assert registry.resumption(ORDERS).offset == 9
    registry.apply(place("source", 3, SourceRecord(topic_id="t")))
    assert registry.resumption(ORDERS) is None


def test_a_resumption_of_a_partition_that_was_never_in_use_counts_as_well() -> None:
    registry = read(place("resume", 0, ResumeRecord(topic_id="t", offset=7)))
    assert registry.resumption(ORDERS).offset == 7
    change = registry.apply(place("resume", 1, None))
    assert change.resumed is None
    assert registry.resumption(ORDERS) is None


@pytest.mark.parametrize(
    "key", [b"source/orders/x", b"resume/orders/-1", b"source/orders", b"other/orders/1", b"source/"]
)
def test_a_key_that_names_no_partition_is_ignored(key: bytes) -> None:
    registry = read(at(0, key, encode_json(SourceRecord(topic_id="t"))))
    assert (registry.sources, registry.resumes, registry.position) == ({}, {}, 1)


@pytest.mark.parametrize("kind", ["source", "resume", "lease"])
def test_an_unreadable_partition_record_or_lease_is_ignored_and_logged(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        registry = read(at(0, f"{kind}/orders/1".encode(), b"rubbish"), registered(1, A))
    assert "bus-subscription[0]@0" in caplog.text
    assert len(registry) == 1


# -- leases


def orphans(registry: Registry, before_ms: int) -> set[str]:
    return {r.incarnation for r in registry.orphans(before_ms)}


def test_a_registration_counts_as_leased_when_it_is_written() -> None:
    registry = read(registered(5, A))
    assert orphans(registry, 1005) == set()
    assert orphans(registry, 1006) == {A.incarnation}


def test_a_lease_keeps_what_it_names_and_nothing_else() -> None:
    registry = read(registered(0, A), registered(1, B), leased(2, A))
    assert orphans(registry, 1002) == {B.incarnation}
    registry.apply(leased(3, B, process="q"))
    assert orphans(registry, 1002) == set()
    registry.apply(
        at(4, b"lease/p", None)
    )  # the process ended: what it named runs out, and is not gone at once
    assert orphans(registry, 1002) == set()
    assert orphans(registry, 1003) == {A.incarnation}


def test_a_lease_of_what_is_not_registered_is_forgotten() -> None:
    registry = read(leased(0, A), registered(1, A), removed(2, A), leased(3, A), registered(4, A, "n2"))
    assert orphans(registry, 1005) == {A.incarnation}


@pytest.mark.parametrize("process", ["p/0", "a/b-7f/3"])
def test_a_lease_is_old_when_it_was_not_written_for_long(process: str) -> None:
    key = f"lease/{process}".encode()
    registry = read(registered(0, A), leased(1, A, process=process), leased(5, process="q/0"))
    assert registry.old_leases(1001) == []
    assert registry.old_leases(1002) == [key]
    assert orphans(registry, 1001) == set()
    registry.apply(leased(6, A, process=process))
    assert registry.old_leases(1006) == [b"lease/q/0"]
    registry.apply(at(7, key, None))
    registry.apply(at(8, key, None))
    assert registry.old_leases(10**6) == [b"lease/q/0"]


def test_a_lease_that_cannot_be_read_is_old_some_day_as_well() -> None:
    registry = read(at(0, b"lease/p/0", b"rubbish"))
    assert registry.old_leases(1001) == [b"lease/p/0"]


def test_a_durable_subscription_is_nobodys_orphan() -> None:
    assert orphans(read(registered(0, D)), 10**12) == set()


def test_a_replaced_incarnation_is_no_orphan_and_its_keys_go_with_its_successor() -> None:
    registry = read(registered(0, A, "n1"), registered(1, A2, "n2"))
    assert orphans(registry, 10**12) == {A2.incarnation}
    assert registry.keys("a") == {f"{A.incarnation}:n1".encode(), f"{A2.incarnation}:n2".encode()}


def test_a_condition_with_timers_is_in_force_with_the_time_of_its_first_record() -> None:
    timed = Registration.of("t", SOLO.quiet("5m"), None, 1)
    registry = read(registered(7, timed), registered(8, timed, "n2"))
    assert registry.get(timed.incarnation).timestamp_ms == 1007


# -- leftovers


def test_what_a_removal_leaves_is_a_leftover_until_it_is_nulled_as_one_and_nobodys_else_goes() -> None:
    registry = read(
        registered(3, A, "n1"), registered(4, A, "n2"), removed(5, A, "n1"), registered(6, A, "n3")
    )
    leftover = f"{A.incarnation}:n2".encode()
    assert registry.leftovers(1005) == []
    assert registry.leftovers(1006) == [("a", leftover)]
    assert registry.keys("a") == {leftover, f"{A.incarnation}:n3".encode()}
    change = registry.apply(cleared_away(7, leftover))
    assert (change.added, change.removed, registry.leftovers(9999)) == ([], [], [])
    assert registry.get(A.incarnation).offset == 6
    assert registry.keys("a") == {f"{A.incarnation}:n3".encode()}


def test_the_records_of_a_replaced_incarnation_are_leftovers() -> None:
    registry = read(registered(3, A), registered(4, A2))
    assert registry.leftovers(9999) == [("a", f"{A.incarnation}:n".encode())]


def test_a_removal_of_all_keys_leaves_nothing() -> None:
    registry = read(registered(3, A, "n1"), registered(4, A, "n2"), removed(5, A, "n1"), removed(6, A, "n2"))
    assert registry.leftovers(9999) == []


def test_a_registration_has_the_same_place_for_readers_that_missed_a_compacted_removal() -> None:
    # n1@3 and its removal @5 are gone; n3 came @6, and the leftover n2@4 was nulled @8
    read_later = [
        registered(7, B),
        cleared_away(8, f"{A.incarnation}:n2".encode()),
        at(9, b"lease/p/0", None),
    ]
    registry = read(registered(4, A, "n2"), registered(6, A, "n3"), *read_later)
    assert registry.get(A.incarnation).offset == 6
    assert registry.get(A.incarnation).timestamp_ms == 1006
    assert [r.offset for r in registry.between(0, 99)] == [6, 7]
    assert registry.by_name("a") is registry.get(A.incarnation)


def test_a_leftover_alone_whose_removal_is_gone_is_in_force_until_it_is_nulled() -> None:
    registry = read(registered(4, A, "n2"))
    change = registry.apply(cleared_away(8, f"{A.incarnation}:n2".encode()))
    assert [gone.offset for gone in change.removed] == [4]
    assert (len(registry), registry.orphans(9999), registry.by_name("a")) == (0, [], None)


LAG = 6  # in steps of a history
HISTORIES = st.lists(
    st.tuples(st.sampled_from(["register", "remove", "clear away", "wait"]), st.integers(0, 2**16)),
    max_size=30,
)


class History:
    """A registry topic that users and engines write to; `live` has read it from its beginning.

    What is left over is cleared away in time: before the brokers clean what left it (LAG later).
    """

    def __init__(self) -> None:
        self.live, self.log = Registry(), []
        self._steps: list[int] = []  # when each record was written
        self._keys: list[tuple[Registration, str]] = []
        self._since: dict[bytes, int] = {}

    def _write(self, record: Record) -> None:
        self.log.append(record)
        self._steps.append(self._step)
        self.live.apply(record)
        for _, key in self.live.leftovers(2**62):
            self._since.setdefault(key, self._step)

    def do(self, step: int, what: str, which: int) -> None:
        self._step = step
        for _, key in self.live.leftovers(2**62):
            if step - self._since[key] >= LAG - 1:
                self._write(cleared_away(len(self.log), key))
        offset = len(self.log)
        if what == "register":
            self._keys.append(((A, A2)[which % 8 == 0], f"n{offset}"))
            self._write(registered(offset, *self._keys[-1]))
        elif what == "remove" and self._keys:  # of some keys only, or once more
            registration, nonce = self._keys[-1 - which % min(4, len(self._keys))]
            self._write(removed(offset, registration, nonce))
        elif what == "clear away" and self._since:  # by two engines at once, or beside a removal
            self._write(cleared_away(offset, [*self._since][-1 - which % min(4, len(self._since))]))
        else:
            self._write(at(offset, b"lease/p/0", None))

    def compacted(self, clean: int, expired: int) -> list[Record]:
        """Cleaned up to a record older than LAG; removals LAG older than that may be gone too."""
        aged = [step <= self._step - LAG for step in self._steps]
        clean %= sum(aged) + 1
        last = {record.key: record.offset for record in self.log[:clean]}
        until = -1 if clean < 1 else min(expired, self._steps[clean - 1] - LAG)
        return [
            record
            for record, step in zip(self.log, self._steps, strict=True)
            if record.offset >= clean
            or (last[record.key] == record.offset and (record.value is not None or step > until))
        ]


def in_force(registry: Registry) -> list[tuple[str, int, int]]:
    return [(r.incarnation, r.offset, r.timestamp_ms) for r in registry.between(0, 2**62)]


@settings(max_examples=400)
@given(HISTORIES, st.integers(0, 2**16), st.integers(0, 60))
def test_a_read_of_the_compacted_registry_agrees_with_a_read_of_all(
    steps: Sequence[tuple[str, int]], clean: int, expired: int
) -> None:
    history = History()
    for step, (what, which) in enumerate(steps):
        history.do(step, what, which)
    reader = read(*history.compacted(clean, expired))
    assert in_force(reader) == in_force(history.live)
    assert sorted(reader.leftovers(2**62)) == sorted(history.live.leftovers(2**62))


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


FAULT = "the Kafka client cannot read its headers: UnicodeDecodeError()"


def unreadable(record: Record) -> Record:
    return record._replace(headers=None, fault=FAULT)


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


@pytest.mark.parametrize("kind", ["source", "resume", "problem"])
@pytest.mark.parametrize("number", ["9" * 5000, "²", "-1", ""])
def test_a_record_about_a_partition_whose_number_is_none_changes_nothing(kind: str, number: str) -> None:
    """int() refuses more than 4,300 digits: one record would end every engine and command."""
    form = {"v": 1, "text": "why", "topic_id": "id", "offset": 1}
    registry = read(at(0, f"{kind}/t/{number}".encode(), json.dumps(form).encode()))
    assert (registry.problems, registry.sources, registry.resumes) == ({}, {}, {})
    assert registry.position == 1


def test_an_engine_that_ends_again_and_again_is_known_until_it_says_otherwise() -> None:
    failing = FailingRecord(deployment="d", host="h", count=3, since_ms=5, text="why")
    registry = read(at(0, b"failing/p", encode_json(failing)))
    assert registry.failing == {"p": (1000, failing)}
    assert registry.old_leases(1001) == [b"failing/p"], "an engine removes it a day later"
    registry.apply(at(1, b"failing/p", b"nonsense"))
    assert registry.failing == {}
    registry.apply(at(2, b"failing/p", encode_json(failing)))
    registry.apply(at(3, b"failing/p", None))
    assert registry.failing == {}
    assert registry.old_leases(10**6) == []
