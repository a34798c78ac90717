"""Wakeups compared with a plain list of them, in whatever order they come, move and go."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock.engine.protocol.tasks import wakeups as module
from interlock.engine.protocol.tasks.wakeups import Wakeup, Wakeups

KEYS = st.sampled_from("abcdef")
# Some share a span, some do not, and some are far away: a key that nothing else ends.
TIMES = st.one_of(st.integers(0, 40), st.integers(0, 40_000), st.integers(2_592_000_000, 2_592_020_000))
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("move"), KEYS, TIMES),
        st.tuples(st.just("close"), KEYS, st.just(0)),
        st.tuples(st.sampled_from(["look", "take", "fill"]), st.just(""), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=400, deadline=None)
@given(CHANGES)
def test_the_first_wakeup_is_the_earliest_of_all_open_keys(changes: list[tuple[str, str, int]]) -> None:
    now: dict[str, int] = {}
    wakeups = Wakeups(lambda _, key: now.get(key))
    for what, key, at_ms in changes:
        if what == "move":
            before = now.get(key)
            now[key] = at_ms
            if before is None or at_ms < before:
                wakeups.push(at_ms, "i", key)
        elif what == "close":
            now.pop(key, None)
        elif what == "fill":
            wakeups.fill((at_ms, "i", key) for key, at_ms in now.items())
        else:
            first = wakeups.first()
            assert first == min((Wakeup(at_ms, "i", key) for key, at_ms in now.items()), default=None)
            if what == "take" and first is not None:
                wakeups.take_first()
                del now[first.key]
                # a key that was closed and opened again has an entry of each time
                while (other := wakeups.first()) is not None and other == first:
                    wakeups.take_first()
    assert wakeups.first() == min((Wakeup(at_ms, "i", key) for key, at_ms in now.items()), default=None)


def test_cleaning_keeps_the_entries_of_open_keys_and_of_those_that_moved_later() -> None:
    now: dict[str, int] = {"later": 0, "stays": 7_000}
    wakeups = Wakeups(lambda _, key: now.get(key))
    wakeups.push(0, "i", "later")
    wakeups.push(7_000, "i", "stays")
    now["later"] = 9_000
    for n in range(10_000):
        now["closes"] = n
        wakeups.push(n, "i", "closes")
    del now["closes"]
    assert len(wakeups) < 3_000
    assert wakeups.first() == (7_000, "i", "stays")
    wakeups.take_first()
    assert wakeups.first() == (9_000, "i", "later")


def test_a_wakeup_earlier_than_the_span_in_order_comes_first() -> None:
    now = {"far": 2_592_000_000, "near": 3_600_000}
    wakeups = Wakeups(lambda _, key: now.get(key))
    wakeups.push(now["far"], "i", "far")
    assert wakeups.first() == (2_592_000_000, "i", "far")
    wakeups.push(now["near"], "i", "near")
    assert wakeups.first() == (3_600_000, "i", "near")
    wakeups.take_first()
    assert wakeups.first() == (2_592_000_000, "i", "far")


def test_a_span_is_put_in_order_once_however_often_an_earlier_one_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ordered: list[int] = []
    heapify = module.heapify

    def counted(entries: list[module.Entry]) -> None:
        ordered.append(len(entries))
        heapify(entries)

    now = {f"far{n}": 2_592_000_000 + n for n in range(100)}
    wakeups = Wakeups(lambda _, key: now.get(key))
    for key, at_ms in now.items():
        wakeups.push(at_ms, "i", key)
    monkeypatch.setattr(module, "heapify", counted)
    for at_ms in range(0, 100_000, 10_000):
        now["near"] = at_ms
        wakeups.push(at_ms, "i", "near")
        assert wakeups.first() == (at_ms, "i", "near")
        wakeups.take_first()
        del now["near"]
        assert wakeups.first() == (2_592_000_000, "i", "far0")
    assert sum(ordered) == 100 + 10
