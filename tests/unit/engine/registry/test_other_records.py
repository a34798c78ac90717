"""Records of the registry that are no registrations: the bus record, leases, sinks, partitions, failures."""

from __future__ import annotations

import json
import logging
from typing import Any

import msgspec
import pytest
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.errors import UnknownVersion
from interlock.engine.records import (
    BUS_KEY,
    BusRecord,
    FailingRecord,
    LeaseRecord,
    ProblemRecord,
    Registration,
    RenewalRecord,
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
    A,
    B,
    D,
    at,
    key_of,
    leased,
    read,
    registered,
    removed,
    renewed,
)


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


# -- records of a later version

FOR_ENGINES = {
    b"bus": BusRecord(v=9, partitions=4),
    b"x:n": msgspec.structs.replace(Registration.of("x", SOLO, None, 1), v=9),
    b"lease/p/0": LeaseRecord(v=9, deployment="d", incarnations=[], host="h"),
    b"renewal/p": RenewalRecord(v=9),
    b"source/t/0": SourceRecord(v=9, topic_id="i"),
    b"resume/t/0": ResumeRecord(v=9, topic_id="i", offset=0),
}
NOT_FOR_ENGINES = {
    b"sink/one/deliver/s": SourceRecord(v=9, topic_id="any"),
    b"problem/t/0": ProblemRecord(v=9, text="x"),
    b"failing/p": FailingRecord(v=9, deployment="d", host="h", count=1, since_ms=0, text="x"),
}


@pytest.mark.parametrize("key", FOR_ENGINES)
def test_nothing_may_be_decided_without_a_record_of_a_later_version(key: bytes) -> None:
    """It was ignored: events of that registration were passed over, waits of that lease swept."""
    registry = read(registered(0, A), at(1, key, encode_json(FOR_ENGINES[key])), registered(2, B))
    with pytest.raises(UnknownVersion) as raised:
        registry.require_known()
    text = str(raised.value)
    assert text.startswith("bus-subscription[0]@1 holds a ")
    assert "of version 9; this Interlock reads 1. Upgrade this process" in text
    assert f"write a null with its key, {key!r}" in text
    assert ([r.offset for r in registry.between(0, 9)], registry.position) == ([0, 2], 3)


@pytest.mark.parametrize("key", NOT_FOR_ENGINES)
def test_a_record_of_a_later_version_that_only_tells_something_is_named_and_ends_nothing(key: bytes) -> None:
    registry = read(at(1, key, encode_json(NOT_FOR_ENGINES[key])))
    registry.require_known()
    assert "bus-subscription[0]@1 holds a " in registry.unknown[key]
    assert (registry.problems, registry.failing) == ({}, {})


@pytest.mark.parametrize("key", [*FOR_ENGINES, *NOT_FOR_ENGINES])
@pytest.mark.parametrize("first_read", [False, True])
def test_a_null_for_its_key_ends_what_a_record_of_a_later_version_did(key: bytes, first_read: bool) -> None:
    """As the error says: an administrator may have written the record by mistake."""
    last = at(3, key, encode_json(BusRecord(partitions=4)) if key == BUS_KEY else None)
    records = (
        registered(0, A),
        at(1, key, encode_json({**FOR_ENGINES, **NOT_FOR_ENGINES}[key])),
        registered(2, B),
        last,
    )
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


# -- the bus record


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


@pytest.mark.parametrize("kind", ["source", "resume", "lease", "renewal"])
def test_an_unreadable_partition_record_or_lease_is_ignored_and_logged(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        registry = read(at(0, f"{kind}/orders/1".encode(), b"rubbish"), registered(1, A))
    assert "bus-subscription[0]@0" in caplog.text
    assert len(registry) == 1


@pytest.mark.parametrize("kind", ["source", "resume", "problem"])
@pytest.mark.parametrize("number", ["9" * 5000, "²", "-1", ""])
def test_a_record_about_a_partition_whose_number_is_none_changes_nothing(kind: str, number: str) -> None:
    """int() refuses more than 4,300 digits: one record would end every engine and command."""
    form = {"v": 1, "text": "why", "topic_id": "id", "offset": 1}
    registry = read(at(0, f"{kind}/t/{number}".encode(), json.dumps(form).encode()))
    assert (registry.problems, registry.sources, registry.resumes) == ({}, {}, {})
    assert registry.position == 1


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


def holders(registry: Registry, which: Registration) -> dict[str, int]:
    return {holder.process: holder.renewed_ms for holder in registry.leases.of(which.incarnation)}


def test_a_renewal_renews_all_leases_of_its_process_that_are_before_it() -> None:
    registry = read(
        *(registered(0, A), registered(1, B), leased(2, A, process="p/0"), leased(3, B, process="q/0")),
        *(renewed(20, "p"), leased(21, A, B, process="p/1")),
    )
    assert orphans(registry, 1004) == set()
    assert holders(registry, A) == {"p": 1021}
    assert holders(registry, B) == {"p": 1021, "q": 1003}
    assert registry.old_leases(1020) == [b"lease/q/0"]
    registry.apply(at(22, b"lease/p/1", None))
    assert holders(registry, A) == {"p": 1020}
    assert holders(registry, B) == {"q": 1003}
    assert orphans(registry, 1021) == set()  # until now, by the lease that is gone
    assert orphans(registry, 1022) == {A.incarnation, B.incarnation}
    assert sorted(registry.old_leases(1021)) == [b"lease/p/0", b"lease/q/0", b"renewal/p"]


@pytest.mark.parametrize("value", [None, b"rubbish"], ids=["a null", "rubbish"])
def test_when_a_renewal_goes_what_it_renewed_has_been_leased_until_then(value: bytes | None) -> None:
    registry = read(registered(0, A), leased(1, A, process="p/0"), renewed(20), at(30, b"renewal/p", value))
    assert orphans(registry, 1020) == set()
    assert orphans(registry, 1021) == {A.incarnation}
    assert holders(registry, A) == {"p": 1001}
    assert sorted(registry.old_leases(1031)) == [b"lease/p/0", *([b"renewal/p"] if value else [])]


def test_what_a_process_has_released_is_not_renewed_by_its_earlier_leases() -> None:
    registry = read(
        *(registered(0, A), registered(1, B), leased(2, A, B, process="p/0"), renewed(5)),
        *(leased(10, A, process="p/1", released=True), renewed(20)),
    )
    assert (holders(registry, A), holders(registry, B)) == ({}, {"p": 1020})
    assert orphans(registry, 1010) == set()
    assert orphans(registry, 1011) == {A.incarnation}
    assert registry.old_leases(1020) == []  # the record that releases it goes with the process
    registry.apply(leased(21, A, process="p/2"))
    assert (holders(registry, A), orphans(registry, 1020)) == ({"p": 1021}, set())


def test_a_process_that_has_ended_holds_nothing_and_has_leased_until_then() -> None:
    history = [registered(0, A), leased(1, A, process="p/0"), renewed(20, ended=True)]
    registry = read(*history)
    assert holders(registry, A) == {}
    assert (orphans(registry, 1020), orphans(registry, 1021)) == (set(), {A.incarnation})
    assert holders(read(*history, leased(21, A, process="p/1")), A) == {"p": 1021}
    assert holders(read(*history, renewed(21)), A) == {"p": 1021}


def test_a_renewal_that_an_earlier_process_of_the_name_left_behind_renews_no_later_lease() -> None:
    registry = read(registered(0, A), renewed(1), leased(5, A, process="p/0"))
    assert holders(registry, A) == {"p": 1005}
    assert registry.old_leases(1005) == [b"renewal/p"]


def test_a_lease_that_cannot_be_read_is_old_some_day_as_well() -> None:
    registry = read(at(0, b"lease/p/0", b"rubbish"))
    assert registry.old_leases(1001) == [b"lease/p/0"]


def test_a_durable_subscription_is_nobodys_orphan() -> None:
    assert orphans(read(registered(0, D)), 10**12) == set()


def test_a_replaced_incarnation_is_no_orphan_and_its_keys_go_with_its_successor() -> None:
    registry = read(registered(0, A, "n1"), registered(1, A2, "n2"))
    assert orphans(registry, 10**12) == {A2.incarnation}
    assert registry.keys("a") == {f"{A.incarnation}:n1".encode(), f"{A2.incarnation}:n2".encode()}


# -- failures


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
