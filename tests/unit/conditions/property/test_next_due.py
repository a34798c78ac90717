"""With only the ticks that `next_due` names, the same fires as with all ticks."""

from __future__ import annotations

from hypothesis import assume, given
from interlock.conditions import Firing, Match, State, next_wakeup, step
from interlock.conditions import Tick as TickInput
from interlock.conditions.evaluate.step import next_due

from .generators import UNIT_MS, Case, cases
from .runs import examples
from .subject import first_state, shown


@examples(250)
@given(cases())
def test_no_tick_but_those_that_are_due_is_needed(case: Case) -> None:
    matches = sorted(
        (each for each in case.inputs if isinstance(each, Match)),
        key=lambda match: (match.timestamp_ms, *match.identity),
    )
    assume(matches)
    end = matches[-1].timestamp_ms + 300 * UNIT_MS
    assert _folded(case, matches, end, only_due=True) == _folded(case, matches, end, only_due=False)


def _folded(case: Case, matches: list[Match], end_ms: int, *, only_due: bool) -> list[object]:
    state, fired = first_state(case), list[Firing]()

    def tick(state: State, time_ms: int) -> State:
        due, wakeup = next_due(case.condition, state), next_wakeup(case.condition, state)
        assert due is None or (wakeup is not None and wakeup <= due)
        if only_due and (due is None or due > time_ms):
            return state
        state, firings = step(case.condition, state, TickInput(time_ms))
        fired.extend(firings)
        return state

    for match in matches:
        state, firings = step(case.condition, tick(state, match.timestamp_ms), match)
        fired.extend(firings)
    tick(state, end_ms)
    return [shown(firing) for firing in fired]
