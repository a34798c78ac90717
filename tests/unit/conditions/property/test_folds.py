"""The firings of a sequence of inputs do not depend on batches, merges, extra ticks or removed states."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st
from interlock.conditions import Condition, Firing, Match, from_json, next_wakeup

from .generators import UNIT_MS, Case, cases, merge_independent_cases
from .oracle import Cancel, Tick
from .runs import examples
from .subject import first_state, folded, held_identities, shown, stepped

WINDOW_CAPACITY = 16


@examples(100)
@given(cases(), st.integers(0, 20))
def test_cutting_a_fold_into_batches_changes_nothing(case: Case, cut: int) -> None:
    """S2; `step` leaves its arguments as they are."""
    state, fired = folded(case.condition, first_state(case), case.inputs)
    head, first = folded(case.condition, first_state(case), case.inputs[:cut])
    stored = head.encode()
    tail, second = folded(case.condition, type(head).decode(stored), case.inputs[cut:])
    assert (tail, first + second) == (state, fired)
    assert head.encode() == stored
    assert tail.encode() == state.encode()


@examples(100)
@given(merge_independent_cases(), st.randoms(use_true_random=False))
def test_a_merge_of_partitions_changes_nothing_where_the_page_says_so(case: Case, random: Random) -> None:
    """V3: between two ticks, any merge of partitions gives the same firings."""
    plain, other = first_state(case), first_state(case)
    for is_match, some in groupby(case.inputs, lambda given_: isinstance(given_, Match)):
        inputs = list(some)
        merged = _merged(inputs, random) if is_match else inputs
        plain, fired = folded(case.condition, plain, inputs)
        other, fired_too = folded(case.condition, other, merged)
        assert Counter(map(shown, fired)) == Counter(map(shown, fired_too))
        assert held_identities(plain) == held_identities(other)


def _merged(matches: list[Match | Tick | Cancel], random: Random) -> list[Match | Tick | Cancel]:
    """The matches in an order in which two partitions may deliver them."""
    left: list[Match | Tick | Cancel] = []
    right: list[Match | Tick | Cancel] = []
    for match in matches:
        assert isinstance(match, Match)
        (left if match.partition else right).append(match)
    result = []
    while left or right:
        source = left if left and (not right or random.random() < 0.5) else right
        result.append(source.pop(0))
    return result


@examples(100)
@given(cases().filter(lambda case: not case.condition.needs_ticks), st.permutations(range(WINDOW_CAPACITY)))
def test_whether_a_condition_fires_at_all_does_not_depend_on_the_order_of_arrival(
    case: Case, order: list[int]
) -> None:
    """V1: within the capacities of H1 and H3, so no more events than the smallest capacity or queue."""
    matches = {given_.identity: given_ for given_ in case.inputs if isinstance(given_, Match)}
    limits = [matcher.limit for matcher in case.condition.matchers if matcher.limit is not None]
    some = list(matches.values())[: min([WINDOW_CAPACITY, *limits])]
    assume(some)
    _, fired = folded(case.condition, first_state(case), some)
    other = [some[place] for place in order if place < len(some)]
    _, fired_too = folded(case.condition, first_state(case), other)
    assert bool(fired) == bool(fired_too)


@examples(100)
@given(cases(), st.lists(st.tuples(st.integers(0, 200), st.integers(-1, 1)), max_size=6))
def test_more_or_fewer_ticks_change_nothing(case: Case, more: list[tuple[int, int]]) -> None:
    """W2, W7: matches come in the order of their stamps; the last tick is the same."""
    matches = sorted(
        (given_ for given_ in case.inputs if isinstance(given_, Match)),
        key=lambda match: (match.timestamp_ms, *match.identity),
    )
    assume(matches)
    first, end = matches[0].timestamp_ms, matches[-1].timestamp_ms + 300 * UNIT_MS
    ticks = [given_.time_ms for given_ in case.inputs if isinstance(given_, Tick)]
    others = [first + number * UNIT_MS + off for number, off in more]
    results = []
    for times in (ticks, others, []):
        state, fired = folded(case.condition, first_state(case), _in_order(matches, [*times, end]))
        results.append(([shown(each) for each in fired], held_identities(state)))
    assert results[0] == results[1] == results[2]


def _in_order(matches: list[Match], times: list[int]) -> list[Match | Tick]:
    """A tick comes before the matches of its time and after those stamped earlier."""
    entries: list[tuple[int, int, Match | Tick]] = [(time, 0, Tick(time)) for time in times]
    entries += [(match.timestamp_ms, 1, match) for match in matches]
    return [entry for _, _, entry in sorted(entries, key=lambda each: each[:2])]


@examples(100)
@given(cases(), st.integers(0, 20))
def test_a_tick_before_the_next_wakeup_changes_nothing(case: Case, after: int) -> None:
    """next_wakeup: no earlier tick fires, nor changes what fires later."""
    inputs = case.inputs[after:]
    state, _ = folded(case.condition, first_state(case), case.inputs[:after])
    wakeup = next_wakeup(case.condition, state)
    # no match stamped before the tick may come after it
    limits = [given_.timestamp_ms for given_ in inputs if isinstance(given_, Match)]
    limits += [] if wakeup is None else [wakeup - 1]
    time = min(limits, default=10**15)
    assume(state.clock_ms is None or time >= state.clock_ms)
    ticked, firings = stepped(case.condition, state, Tick(time))
    assert firings == ()
    assert held_identities(ticked) == held_identities(state)
    _, plain = folded(case.condition, state, inputs)
    _, later = folded(case.condition, ticked, inputs)
    assert list(map(shown, later)) == list(map(shown, plain))


@examples(100)
@given(cases())
def test_a_condition_read_back_from_json_fires_the_same(case: Case) -> None:
    """Equal conditions, equal numbers of matchers, equal firings."""
    read = from_json(case.condition.to_json())
    assert read == case.condition
    assert list(map(shown, _fired(read, case))) == list(map(shown, _fired(case.condition, case)))


def _fired(condition: Condition, case: Case) -> list[Firing]:
    return folded(condition, first_state(case), case.inputs)[1]
