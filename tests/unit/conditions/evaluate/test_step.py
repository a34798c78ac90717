"""Cases of `step`, and its stored state: docs/use/conditions.md. property/ compares it with an oracle."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from interlock.conditions import EMPTY, Condition, Firing, Match, State, event, step
from interlock.conditions.evaluate.seen import SEEN_EVENTS, is_seen
from interlock.events import Event

a, b, c = event("a", label="a"), event("b", label="b"), event("c", label="c")
BOTH = event(source="/s", label="s")


@pytest.mark.parametrize(
    ("state", "idle"),
    [
        (EMPTY, True),
        (State(seen=b"12345678", last_ms=7, clock_ms=9, since_ms=8, dropped=2), True),
        (State(waiting=(Match(Event.of("a", "/s"), (0,), "events", 0, 0, 0),)), False),
        (State(opened_ms=1), False),
        (State(armed_ms=1), False),
        (State(timer_starts={0: 1}), False),
        (State(negated_times={0: (1,)}), False),
    ],
)
def test_a_state_is_idle_when_it_holds_only_seen_identities(state: State, idle: bool) -> None:
    assert state.is_idle is idle


def test_a_pair_that_has_fired_is_idle_and_half_a_pair_is_not() -> None:
    pair = a & b
    half, _ = step(pair, EMPTY, match(pair, "a", "1"))
    fired, decisions = step(pair, half, match(pair, "b", "2"))
    assert (half.is_idle, len(decisions), fired.is_idle) == (False, 1, True)


def match(condition: Condition, type_: str, id_: str, time_s: int | None = None, at_ms: int = 0) -> Match:
    time = None if time_s is None else datetime.fromtimestamp(time_s, UTC)
    sent = Event.of(type_, "/s", id=id_, time=time)
    numbers = tuple(n for n, matcher in enumerate(condition.matchers) if matcher.accepts(sent))
    return Match(sent, numbers, "events", 0, 0, at_ms)


def names(firing: Firing) -> dict[str, str]:
    return {part.label: part.match.event.id for part in firing.taking_part}


def run(condition: Condition, *sent: str) -> tuple[list[dict[str, str]], set[str]]:
    """Firings as {label: id} and pending ids, of events named type + digit, with "@t" for a time."""
    state, fired = EMPTY, []
    for text in sent:
        id_, _, time = text.partition("@")
        state, firings = step(condition, state, match(condition, id_[0], id_, int(time) if time else None))
        fired += [names(firing) for firing in firings]
    return fired, {held.event.id for held in state.matches}


def test_all_of_fires_when_both_are_there_in_either_order() -> None:
    """A1, A2, C1"""
    assert run(a & b, "a1", "b1") == run(a & b, "b1", "a1") == ([{"a": "a1", "b": "b1"}], set())


def test_all_of_does_not_fire_on_one_half() -> None:
    """A1"""
    assert run(a & b, "a1", "a2") == ([], {"a2"})


def test_one_event_accepted_by_all_meets_all_of_alone() -> None:
    """A3, M8"""
    left, right = event("a", label="l"), event("a", label="r")
    assert run(left & right, "a1") == ([{"l": "a1", "r": "a1"}], set())


def test_the_branch_that_is_not_needed_stays_pending() -> None:
    """A6, O2"""
    assert run((a | b) & c, "b1", "a1", "c1") == ([{"a": "a1", "c": "c1"}], {"b1"})


def test_any_of_takes_the_first_branch_that_is_met() -> None:
    """O1, O2"""
    assert run(a | BOTH, "a1") == ([{"a": "a1"}], set())
    assert run(BOTH | a, "a1") == ([{"s": "a1"}], set())
    assert run(a | b, "b1") == ([{"b": "b1"}], set())


def test_a_firing_by_one_branch_leaves_the_other_pending() -> None:
    """O3, C3"""
    assert run(a | (b & c), "b1", "a1") == ([{"a": "a1"}], {"b1"})
    assert run(a | (b & c), "b1", "a1", "c1") == ([{"a": "a1"}, {"b": "b1", "c": "c1"}], set())


def test_a_consumed_event_is_dropped_by_the_matchers_that_took_no_part() -> None:
    """C2"""
    assert run(a | (BOTH & c), "a1") == ([{"a": "a1"}], set())
    # both matchers hold c1, so it meets s & c by itself
    assert run(a | (BOTH & c), "a1", "c1") == ([{"a": "a1"}, {"s": "c1", "c": "c1"}], set())


def test_a_condition_fires_again_with_further_events() -> None:
    """C4"""
    assert run(a & b, "a1", "b1", "b2", "a2")[0] == [{"a": "a1", "b": "b1"}, {"a": "a2", "b": "b2"}]


def test_parts_come_in_the_order_of_their_matchers() -> None:
    """C5"""
    state, _ = step(a & b & c, EMPTY, match(a & b & c, "c", "c1"))
    state, _ = step(a & b & c, state, match(a & b & c, "b", "b1"))
    _, (firing,) = step(a & b & c, state, match(a & b & c, "a", "a1"))
    assert [part.label for part in firing.taking_part] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        pytest.param(("a1@1", "a2@2", "b1"), "a2", id="L1"),
        pytest.param(("a2@2", "a1@1", "b1"), "a2", id="L2"),
        pytest.param(("a1@1", "a2@1", "b1"), "a2", id="L3-in-order"),
        pytest.param(("a2@1", "a1@1", "b1"), "a2", id="L3-reversed"),
    ],
)
def test_the_latest_event_by_its_time_takes_part(sent: tuple[str, ...], taken: str) -> None:
    assert run(a & b, *sent)[0] == [{"a": taken, "b": "b1"}]


def test_the_record_timestamp_counts_where_an_event_has_no_time() -> None:
    """L1, L2"""
    state, _ = step(a & b, EMPTY, match(a & b, "a", "a1", at_ms=5_000))
    state, _ = step(a & b, state, match(a & b, "a", "a2", time_s=4))
    assert [held.event.id for held in state.matches] == ["a1"]
    state, _ = step(a & b, state, match(a & b, "a", "a3", at_ms=6_000))
    assert [held.event.id for held in state.matches] == ["a3"]


@pytest.mark.parametrize(
    ("sent", "fired", "pending"),
    [
        pytest.param(("a1", "a1"), 0, {"a1"}, id="held"),
        pytest.param(("a1", "b1", "a1", "b2"), 1, {"b2"}, id="consumed"),
        pytest.param(("a1@1", "a2@2", "a1@1", "b1"), 1, set(), id="replaced"),
        pytest.param(("a2@2", "a1@1", "b1", "a1@1"), 1, set(), id="late"),
    ],
)
def test_a_duplicate_does_not_count_twice(sent: tuple[str, ...], fired: int, pending: set[str]) -> None:
    """D1"""
    firings, rest = run(a & b, *sent)
    assert (len(firings), rest) == (fired, pending)


def test_a_duplicate_is_known_by_source_and_id_alone() -> None:
    """D3"""
    state, _ = step(a & b, EMPTY, match(a & b, "a", "1"))
    assert step(a & b, state, match(a & b, "b", "1")) == (state, ())


def test_the_horizon_of_duplicates_is_64_events_and_a_held_event_is_always_known() -> None:
    """D1, D2"""
    held = run(a & b, "a1@9", *(f"a{n}@1" for n in range(2, 2 + SEEN_EVENTS)), "a1@9")
    assert held == ([], {"a1"})
    pairs = [f"{kind}{n}" for n in range(2, 2 + SEEN_EVENTS // 2) for kind in "ab"]
    assert run(a & b, "a1", "b1", *pairs[:-2], "a1")[1] == set()
    assert run(a & b, "a1", "b1", *pairs, "a1")[1] == {"a1"}


def test_a_digest_is_not_found_across_two_others() -> None:
    """D1"""
    seen = bytes(range(24))
    assert is_seen(seen, seen[8:16])
    assert not is_seen(seen, seen[4:12])
