"""The lazy registry: it answers as one that has built each condition."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any
from unittest.mock import ANY

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import event
from interlock.engine.bus import End, Record
from interlock.engine.records import LEFTOVER, Registration, encode_json
from interlock.engine.registry import lazy
from interlock.engine.registry.lazy import LazyRegistry, Listed
from interlock.engine.registry.registry import Registry
from msgspec.structs import replace

from tests.unit.engine.registry.registry_log import (
    A2,
    OWN_STEPS,
    TOPIC,
    UNREADABLE,
    A,
    B,
    at,
    items,
    key_of,
    leased,
    read,
    registered,
    removed,
)

Steps = Sequence[tuple[str, Registration, str]]
NAMES = ("a", "b", "c")


def known(registry: Registry) -> dict[str, Any]:
    """Everything that both kinds answer."""
    return {
        "position": registry.position,
        "bus": registry.bus,
        "in force": [(r.registration, r.offset, r.timestamp_ms) for r in registry.between(0, 2**62)],
        "conditions": [str(r.condition) for r in registry.between(0, 2**62)],
        "number": len(registry),
        "named": {name: getattr(registry.by_name(name), "offset", None) for name in NAMES},
        "incarnations": [getattr(registry.get(r.incarnation), "offset", None) for r in (A, A2, B)],
        "keys": {name: registry.keys(name) for name in NAMES},
        "leftovers": [{tuple(x) for x in registry.leftovers(ms)} for ms in range(1000, 1050)],
        "successors": [getattr(registry.successor(r.incarnation), "offset", None) for r in (A, A2, B)],
        "leases": sorted(registry.old_leases(2**62)),
        "unknown": registry.unknown,
    }


def lazily(
    *history: Record | End, asked: Iterable[int] = (), share: bool = False
) -> tuple[LazyRegistry, dict[int, Listed]]:
    """A lazy registry, and what it reported as listed. asked: before which items all is asked for."""
    reported: dict[int, Listed] = {}

    def add(each: Listed) -> None:
        assert each.offset not in reported
        reported[each.offset] = each

    registry = LazyRegistry(add, lambda each: reported.pop(each.offset) and None, share=share)
    for number, item in enumerate(history):
        if number in set(asked):
            registry.between(0, 2**62)
        registry.apply(item)
    return registry, reported


@settings(max_examples=400)
@given(OWN_STEPS, st.sets(st.integers(0, 29)), st.booleans())
def test_it_answers_as_one_that_has_built_each_condition_whenever_it_is_asked(
    steps: Steps, asked: set[int], share: bool
) -> None:
    history = [*items(steps), End(TOPIC, 99)]
    registry, reported = lazily(*history, asked=asked, share=share)
    assert known(registry) == known(read(*history))
    assert reported == registry.listed
    assert sorted(reported) == [each.offset for each in registry.between(0, 2**62)]


@settings(max_examples=200)
@given(OWN_STEPS, st.integers(0, 30), st.booleans())
def test_a_copy_answers_as_the_registry_did_then(steps: Steps, number: int, share: bool) -> None:
    history = list(items(steps))
    registry, reported = lazily(*history[:number], share=share)
    copied = registry.copy()
    for item in history[number:]:
        registry.apply(item)
    assert known(copied) == {**known(read(*history[:number])), "leases": ANY, "keys": ANY}
    assert reported == registry.listed


# One subscription and few kinds of records: what happens to it soon is more than a registration.
FEW = st.lists(
    st.tuples(
        st.sampled_from(["register", "remove", "clear"]),
        st.sampled_from([A, A, A2]),
        st.sampled_from(["n1", "n2"]),
    ),
    min_size=2,
    max_size=7,
)


@settings(max_examples=600)
@given(FEW, st.sets(st.integers(0, 6)))
def test_it_answers_so_when_much_happens_to_one_subscription(steps: Steps, asked: set[int]) -> None:
    history = [*items(steps), End(TOPIC, 99)]
    registry, reported = lazily(*history, asked=asked)
    assert known(registry) == known(read(*history))
    assert reported == registry.listed


@pytest.mark.parametrize(
    "history",
    [
        (registered(0, A), registered(1, A, "n2"), removed(2, A)),
        (registered(0, A), registered(1, A, "n2"), removed(2, A, "n2")),
        (registered(0, A), registered(1, A, "n2"), replace(removed(2, A), headers=LEFTOVER)),
        (registered(0, A), replace(removed(1, A), headers=LEFTOVER)),
        (registered(0, A), registered(1, A)),
        (registered(0, A), removed(1, A, "n2"), registered(2, A)),
        (registered(0, A), registered(1, A2), removed(2, A2), registered(3, A)),
    ],
    ids=[
        "one of two keys is removed",
        "the other one is removed",
        "the first of two keys was left over",
        "the only key was left over",
        "written again with its key",
        "removed with a key that was compacted away",
        "replaced, removed and registered again",
    ],
)
def test_keys_and_leftovers_are_known_as_ever(history: Sequence[Record]) -> None:
    registry, reported = lazily(*history)
    assert known(registry) == known(read(*history))
    assert reported == registry.listed


@settings(max_examples=200)
@given(OWN_STEPS)
def test_what_is_asked_for_by_name_first_is_the_same(steps: Steps) -> None:
    history = list(items(steps))
    (registry, _), whole = lazily(*history), read(*history)
    for name in NAMES:
        assert getattr(registry.by_name(name), "offset", None) == getattr(whole.by_name(name), "offset", None)
        assert registry.keys(name) == whole.keys(name)


def test_a_condition_is_built_when_it_is_asked_for_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    build = Registration.build_condition

    def counted(registration: Registration) -> Any:
        built.append(registration.subscription)
        return build(registration)

    monkeypatch.setattr(Registration, "build_condition", counted)
    registry, _ = lazily(registered(0, A), registered(1, B))
    assert (built, len(registry), registry.is_listed("b")) == ([], 2, True)
    assert registry.by_name("b") is registry.by_name("b")
    assert built == ["b"]


def test_conditions_that_were_not_asked_for_lately_are_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "MOST_BUILT", 1)
    registry, _ = lazily(registered(0, A), registered(1, B))
    first = registry.by_name("a")
    registry.by_name("b")
    again = registry.by_name("a")
    assert first is not again
    assert first is not None
    assert again is not None
    assert (first.registration, first.offset) == (again.registration, again.offset)


def test_a_damaged_registration_is_listed_until_it_is_asked_for_and_then_logged_as_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    history = (registered(0, UNREADABLE), registered(1, UNREADABLE, "n2"), registered(2, B))
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        read(*history)
    wanted, _ = [each.message for each in caplog.records], caplog.clear()
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        registry, _ = lazily(*history)
        assert (len(registry), caplog.records) == (2, [])
        assert registry.by_name("a") is None
        assert registry.by_name("a") is None
    assert [each.message for each in caplog.records] == wanted
    assert (len(registry), registry.is_listed("a")) == (1, False)


def test_equal_conditions_are_kept_once_where_that_is_asked_for() -> None:
    pair = event("x") & event("y")
    waits = [Registration.of(f"w{n}", pair, None, 0) for n in range(3)]
    registry, listed = lazily(*(registered(n, each) for n, each in enumerate(waits)), share=True)
    forms = [each.form for each in listed.values()]
    assert all(form[1] is forms[0][1] for form in forms)
    assert [b"".join(form) for form in forms] == [encode_json(each) for each in waits]
    assert [each.registration for each in registry.between(0, 9)] == waits


def test_what_has_ended_leaves_nothing() -> None:
    registry, listed = lazily(
        registered(0, A), removed(1, A), registered(2, A2), removed(3, A2), at(4, b"x:n", None)
    )
    assert (listed, len(registry), registry.keys("a")) == ({}, 0, set())


def test_leases_are_known_at_the_end_of_the_topic_and_only_the_last_of_a_key_is_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    damaged = at(2, b"lease/p", b"no JSON")
    registry, _ = lazily(registered(0, A), registered(1, B), damaged, leased(3, A, B), leased(4, B))
    assert registry.leases.of(B.incarnation) == []
    registry.apply(End(TOPIC, 5))
    assert [holder.renewed_ms for holder in registry.leases.of(B.incarnation)] == [1004]
    assert registry.leases.of(A.incarnation) == []
    assert caplog.text == ""
    registry.apply(at(5, b"lease/p", b"no JSON"))
    registry.apply(End(TOPIC, 6))
    assert registry.leases.of(B.incarnation) == []
    assert "@5" in caplog.text


@pytest.mark.parametrize("few", [0, 20])
@settings(max_examples=200)
@given(steps=OWN_STEPS)
def test_read_once_it_knows_the_holders_of_what_is_listed(few: int, steps: Steps) -> None:
    history = [*items([step for step in steps if step[0] != "end"]), End(TOPIC, 99)]
    whole, _ = lazily(*history)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lazy, "FEW", few)
        once = LazyRegistry(once=True)
        for item in history:
            once.apply(item)
    for each in whole.listed.values():
        assert once.leases.of(each.incarnation) == whole.leases.of(each.incarnation)
    assert once.unknown == whole.unknown


def test_read_once_it_does_not_read_leases_that_name_nothing_listed_but_their_versions() -> None:
    later = msgspec.json.encode({"v": 99, "deployment": "d", "incarnations": [], "host": "h"})
    registry = LazyRegistry(once=True)
    for item in (registered(0, A), leased(1, B, process="p/0"), leased(2, A, process="p/1")):
        registry.apply(item)
    registry.apply(at(3, b"lease/q/0", later))
    registry.apply(End(TOPIC, 4))
    assert registry.leases.of(B.incarnation) == []
    assert [holder.process for holder in registry.leases.of(A.incarnation)] == ["p"]
    assert list(registry.unknown) == [b"lease/q/0"]


def test_a_lease_of_a_later_version_is_unknown_until_it_is_written_again() -> None:
    later = msgspec.json.encode({"v": 99, "deployment": "d", "incarnations": [], "host": "h"})
    registry, _ = lazily(at(0, b"lease/p/0", later), End(TOPIC, 1))
    assert list(registry.unknown) == [b"lease/p/0"]
    registry.apply(at(1, b"lease/p/0", None))
    registry.apply(End(TOPIC, 2))
    assert registry.is_known


def test_a_registration_under_a_key_of_another_incarnation_is_ignored() -> None:
    registry, _ = lazily(registered(0, B), at(1, key_of(A), encode_json(B)))
    assert [each.offset for each in registry.between(0, 9)] == [0]
