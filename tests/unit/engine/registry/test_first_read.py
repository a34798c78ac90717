"""The first read of a registry: what is over is not read, and what is in force is as if all were applied."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from interlock import event
from interlock.conditions import MatcherIndex
from interlock.engine.bus import End, Record
from interlock.engine.records import BUS_KEY, BusRecord, Registration, encode_json
from interlock.engine.registry.first_read import FirstRead
from interlock.engine.registry.registry import Registry

from tests.kit.pool import Pool
from tests.unit.engine.registry.registry_log import (
    A2,
    SOLO,
    STEPS,
    UNREADABLE,
    A,
    B,
    at,
    items,
    key_of,
    read,
    registered,
    removed,
)

PAIR = event("x") & event("y")


def first_read(*items: Record | End) -> Registry:
    registry = Registry()
    first = FirstRead(registry)
    for item in items:
        first.take(item)
    first.finish()
    return registry


def known(registry: Registry) -> dict[str, Any]:
    """Everything that it answers."""
    return {
        "position": registry.position,
        "bus": registry.bus,
        "in force": [(r.registration, r.offset, r.timestamp_ms) for r in registry.between(0, 2**62)],
        "named": {name: getattr(registry.by_name(name), "offset", None) for name in ("a", "b", "c")},
        "keys": {name: registry.keys(name) for name in ("a", "b", "c")},
        "leftovers": [{tuple(x) for x in registry.leftovers(ms)} for ms in range(1000, 1050)],
        "orphans": [{r.incarnation for r in registry.orphans(ms)} for ms in range(1000, 1050)],
        "successors": [getattr(registry.successor(r.incarnation), "offset", None) for r in (A, A2, B)],
        "leases": sorted(registry.old_leases(2**62)),
    }


@settings(max_examples=400)
@given(STEPS)
def test_the_first_read_gives_what_applying_all_records_gives(
    steps: Sequence[tuple[str, Registration, str]],
) -> None:
    history = list(items(steps))
    assert known(first_read(*history)) == known(read(*history))


@settings(max_examples=300)
@given(STEPS, STEPS)
def test_records_after_the_first_read_give_what_applying_all_records_gives(
    before: Sequence[tuple[str, Registration, str]], after: Sequence[tuple[str, Registration, str]]
) -> None:
    history = list(items([*before, *after]))
    registry = first_read(*history[: len(before)])
    for item in history[len(before) :]:
        registry.apply(item)
    assert known(registry) == known(read(*history))


def test_a_removed_registration_is_neither_built_nor_logged_if_unreadable(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Registration, "build_condition", lambda _: pytest.fail("it was built"))
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        registry = first_read(
            registered(0, A, "n1"),
            registered(1, A, "n2"),
            at(2, b"x:n", b"no JSON"),
            registered(3, UNREADABLE, "n3"),
            removed(4, A, "n2"),
            removed(5, A, "n1"),
            at(6, b"x:n", None),
            removed(7, A, "n3"),
        )
    assert (len(registry), registry.position, caplog.text) == (0, 8, "")


def test_an_unreadable_registration_that_is_not_removed_is_ignored_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        registry = first_read(registered(0, UNREADABLE), at(1, b"x:n", b"no JSON"), registered(2, B))
    assert [r.offset for r in registry.between(0, 9)] == [2]
    assert "bus-subscription[0]@0" in caplog.text
    assert "bus-subscription[0]@1" in caplog.text


def test_what_replaced_another_one_and_is_removed_leaves_neither_in_force() -> None:
    registry = first_read(registered(0, A), registered(1, A2), removed(2, A2))
    assert len(registry) == 0
    assert registry.leftovers(9999) == [("a", key_of(A))]


def test_until_it_is_finished_the_registry_knows_its_bus_and_its_position_and_no_registration() -> None:
    registry = Registry()
    first = FirstRead(registry)
    for record in (at(0, BUS_KEY, encode_json(BusRecord(partitions=4))), registered(1, A)):
        first.take(record)
    assert (registry.position, registry.bus, len(registry)) == (2, BusRecord(partitions=4), 0)


def test_those_in_force_are_in_the_order_of_the_log_whatever_came_between() -> None:
    others = [Registration.of(f"w{n}", SOLO, None, 1) for n in range(9)]
    records = [registered(n, each) for n, each in enumerate(others)]
    records += [removed(9 + n, each) for n, each in enumerate(others[::2])]
    records += [registered(20, others[1], "n2")]
    assert [r.offset for r in first_read(*records).between(0, 99)] == [1, 3, 5, 7]


def test_an_engine_that_starts_indexes_only_what_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool()
    waits = [Registration.of(f"w{n}", PAIR, None, 0) for n in range(5)]
    for wait in waits:
        pool.register(wait)
    for wait in waits[:-1]:
        pool.remove(wait)
    indexed: list[str] = []
    add = MatcherIndex.add

    def counted(index: Any, registered: Any, *args: Any) -> None:
        indexed.append(registered.registration.subscription)
        add(index, registered, *args)

    monkeypatch.setattr(MatcherIndex, "add", counted)
    pool.boot()
    assert indexed == ["w4"]
    pool.emit("x")
    pool.emit("y")
    pool.run()
    assert pool.fired() == [("w4", "met")]
