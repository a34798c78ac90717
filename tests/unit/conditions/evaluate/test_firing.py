"""The firing and its id (C6, W8)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock.conditions import Firing, Match, Part, firing_id
from interlock.events import Event


def parts(*names: tuple[str, str]) -> list[Part]:
    return [
        Part(
            "a",
            Match(
                Event({"specversion": "1.0", "id": id_, "source": source, "type": "a"}),
                (0,),
                "events",
                0,
                0,
                0,
            ),
        )
        for source, id_ in names
    ]


PAIR = parts(("/s", "1"), ("/s", "2"))


@pytest.mark.parametrize(
    ("id_", "expected"),
    [
        (firing_id("inc", "k", "met", PAIR), "aca692d474042168e08a15223a0b4d8d"),
        (firing_id("inc", "k", "met", PAIR, 1_800_000_000_000), "491c644eb283c7d7289ae8c393cdcd83"),
        (firing_id("inc", "k", "expired", [], 1_800_000_000_000), "b1ccc976afc45f113132dd77ef695d6a"),
        (
            firing_id("inc", "\u20ac", "met", parts(("/s", "\u20ac1"), ("/s\u20ac", "2")), 5),
            "1038554fc7f53dc03964a3f342d0823a",
        ),
    ],
    ids=["match", "timer", "no-events", "not-ascii"],
)
def test_the_ids_of_a_release_are_those_of_the_next(id_: str, expected: str) -> None:
    """C6, W8: the ids are in the emitted events and in the waits of tasks"""
    assert id_ == expected


def test_a_due_time_makes_another_id() -> None:
    """W8: two firings of `absent` may have the same events: none"""
    ids = [firing_id("inc", "k", "met", [], timer) for timer in (None, 0, 1, 10)]
    assert len(set(ids)) == 4


texts = st.text("ab1/ \u20ac", min_size=1, max_size=3)
decisions = st.tuples(
    texts,
    texts,
    st.sampled_from(["met", "expired"]),
    st.lists(st.tuples(texts, texts), max_size=3, unique=True),
    st.none() | st.integers(0, 10**13),
)


def decided(decision: tuple[str, str, str, list[tuple[str, str]], int | None]) -> tuple[object, ...]:
    incarnation, key, outcome, events, timer = decision
    return (incarnation, key, outcome, tuple(sorted(events)), timer)


def test_an_event_that_takes_part_twice_counts_once_in_the_id() -> None:
    """C6"""
    assert firing_id("inc", "k", "met", [*reversed(PAIR), *PAIR]) == firing_id("inc", "k", "met", PAIR)


@given(decisions, decisions)
def test_ids_are_equal_exactly_when_the_decisions_are(one: tuple, other: tuple) -> None:  # type: ignore[type-arg]
    ids = [firing_id(d[0], d[1], d[2], parts(*d[3]), d[4]) for d in (one, other)]
    assert (ids[0] == ids[1]) == (decided(one) == decided(other))


def test_a_firing_is_plain_data() -> None:
    firing = Firing("expired", tuple(PAIR), ("b",), 5)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(firing), type=Firing) == firing
    assert Firing("met", ()) == Firing("met", (), (), None)
