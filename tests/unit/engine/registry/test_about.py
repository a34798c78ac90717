"""Records about some names: a registry that reads these alone knows of them what one that reads all knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import event
from interlock.engine.bus import Record
from interlock.engine.records import Registration, encode_json
from interlock.engine.registry.about import About
from interlock.engine.registry.lazy import LazyRegistry
from interlock.engine.registry.registry import Registry

from tests.unit.engine.registry.registry_log import KINDS, at, items, key_of, read, registered, removed

SOLO, QUOTED = event("solo"), event("solo", where='data.a == "x"')
NAMES = ("air/alpha/1", 'air/al"pha/2', "air/beta/1")
WAITS = [Registration.of(name, SOLO, None, since) for name in NAMES for since in (1, 2)]
WAITS += [Registration.of(name, QUOTED, None, 3) for name in NAMES]
DAMAGED = [msgspec.structs.replace(each, condition=msgspec.Raw(b'{"v":1}')) for each in WAITS[::2]]
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from([*WAITS, *DAMAGED]), st.sampled_from(["n1", "n2"])),
    max_size=25,
)


def about(text: str, history: Sequence[Any], registry: Registry) -> Registry:
    chosen = About(text)
    for item in history:
        if not isinstance(item, Record) or chosen.is_wanted(item.key, item.value):
            registry.apply(item)
    return registry


def known(registry: Registry, name: str) -> dict[str, Any]:
    found = registry.by_name(name)
    return {
        "in force": None if found is None else (found.registration, found.offset, found.timestamp_ms),
        "keys": registry.keys(name),
        "leftovers": [each for each in registry.leftovers(2**62) if each[0] == name],
        "bus": registry.bus,
    }


@settings(max_examples=300)
@given(STEPS, st.booleans(), st.sampled_from(["alpha", 'l"p', "air/b", "beta/1", "a"]))
def test_of_the_names_that_contain_the_text_all_is_known(
    steps: Sequence[tuple[str, Registration, str]], lazily: bool, text: str
) -> None:
    history = list(items(steps))
    found = about(text, history, LazyRegistry() if lazily else Registry())
    whole = read(*history)
    for name in NAMES:
        if text in name:
            assert known(found, name) == known(whole, name)


def test_records_about_others_are_not_chosen() -> None:
    alpha, beta = WAITS[0], WAITS[4]
    chosen = About("alpha")
    history = (
        registered(0, beta),
        registered(1, alpha),
        removed(2, beta),
        removed(3, alpha),
        at(4, b"bus", b""),
    )
    assert [chosen.is_wanted(each.key, each.value) for each in history] == [False, True, False, True, True]


@pytest.mark.parametrize(
    ("text", "written"),
    [("/älpha", "air/älpha"), ("/älpha", "air\\/\\u00e4lpha"), ('l"p', 'air/al\\"pha')],
)
def test_a_name_is_found_however_json_writes_it(text: str, written: str) -> None:
    value = f'{{"v":1,"subscription":"{written}"}}'.encode()
    assert About(text).is_wanted(key_of(WAITS[0]), value)
    assert not About("beta").is_wanted(key_of(WAITS[0]), value)


def test_a_text_that_is_not_utf_8_finds_nothing() -> None:
    """As an argument of a command that is not."""
    assert not About("\ud800").is_wanted(key_of(WAITS[0]), encode_json(WAITS[0]))
