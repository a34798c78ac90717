"""`step` against the oracle, over random conditions and inputs: docs/use/conditions.md, all cases."""

from __future__ import annotations

from hypothesis import given
from interlock.conditions import Match, State
from interlock.events import Event

from .generators import BASES_MS, LEAVES, Case, cases, crowded_cases, match_of
from .oracle import WAITING, Fired, Oracle, Tick
from .runs import FUZZED, examples
from .shares import Shares
from .subject import INCARNATION, KEY, first_state, held_identities, id_of, shown, stepped


def oracle_of(case: Case) -> Oracle:
    if case.opened is None:
        return Oracle(case.condition)
    return Oracle(case.condition, case.opened.at_ms, case.opened.since_ms)


def compare(case: Case, whole_from: int = 0) -> list[Fired]:
    """Step and oracle side by side; the state is written and read before every step. Returns what fired.

    whole_from: before this input only the firings are compared, and the state is not written.
    """
    oracle, state, fired = oracle_of(case), first_state(case), []
    for number, given_ in enumerate(case.inputs):
        is_whole = number >= whole_from
        state, firings = stepped(case.condition, State.decode(state.encode()) if is_whole else state, given_)
        expected = oracle.feed(given_)
        fired += expected
        assert [shown(firing) for firing in firings] == expected, number
        if not is_whole:
            continue
        assert [id_of(firing) for firing in firings] == [each.id(INCARNATION, KEY) for each in expected]
        assert held_identities(state) == oracle.held_identities(), number
        assert [match.identity for match in state.waiting] == oracle.waiting_identities(), number
        assert state.dropped == oracle.dropped, number
        if isinstance(given_, Tick):
            assert stepped(case.condition, state, given_) == (state, ()), number  # S1
    return fired


def test_step_fires_as_the_oracle_does() -> None:
    """All cases of all nodes; S1; S2 for states that are written and read."""
    shares = Shares()

    @examples(1_000)  # most planted faults show within 1,000 (test_faults.py); `make fuzz-step` plays others
    @given(cases())
    def check(case: Case) -> None:
        shares.add(case, compare(case))

    check()
    assert FUZZED or shares.cases >= 1_000
    shares.check()


@examples(150)
@given(crowded_cases(17, 40))
def test_step_fires_as_the_oracle_does_when_more_comes_than_is_held(case: Case) -> None:
    """H1 to H4, L1 to L3, W7"""
    compare(case)


@examples(60)
@given(crowded_cases(66, 110))
def test_step_fires_as_the_oracle_does_when_more_comes_than_is_remembered(case: Case) -> None:
    """D1, D2"""
    compare(case)


def test_the_last_of_too_many_waiting_matches_are_dropped() -> None:
    """W4"""
    condition = (LEAVES[0] & LEAVES[1]).ordered()
    inputs: list[Match | Tick] = []
    for number in range(WAITING + 5):
        place = number * 7 % (WAITING + 5)  # the order of arrival is not that of the stamps
        match = match_of(
            condition, Event.of("ab"[place % 2], "/s", id=str(place)), BASES_MS[0] + place, number
        )
        assert match is not None
        inputs.append(match)
    inputs.append(Tick(BASES_MS[0] + 2 * WAITING))
    fired = compare(Case(condition, None, tuple(inputs)), whole_from=WAITING - 5)
    assert len(fired) == WAITING // 2
