"""Removing the state of a key that closes does not change what fires."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from interlock.conditions import Match, State, closes_at

from .generators import BASES_MS, Case, cases
from .oracle import Cancel, Tick
from .runs import examples
from .subject import first_state, folded, shown, stepped

LONG_TTL_MS = 1_000 * 24 * 3_600_000


def test_a_state_may_be_forgotten_when_it_closes() -> None:
    """Z1: after a tick closes a state, later matches fire the same with and without it."""
    closed = [0, 0]

    @examples(250)
    @given(cases(), st.integers(0, 20))
    def check(case: Case, after: int) -> None:
        state, _ = folded(case.condition, first_state(case), case.inputs[:after])
        time = 0
        while (closes := closes_at(case.condition, state, LONG_TTL_MS)) is not None and closes > time:
            time = closes
            if time > BASES_MS[-1] + LONG_TTL_MS // 2:
                closed[False] += 1
                return  # held until its ttl: nothing to test
            state, _ = stepped(case.condition, state, Tick(time))
        closed[True] += 1
        later = _moved(case.inputs[after:], time + 1)
        _, kept = folded(case.condition, state, later)
        _, forgotten = folded(case.condition, State(since_ms=state.since_ms), later)  # Y1: the wait's
        assert list(map(shown, kept)) == list(map(shown, forgotten))

    check()
    assert closed[True] > sum(closed) * 0.4 or sum(closed) < 500, closed


def _moved(inputs: tuple[Match | Tick | Cancel, ...], first_ms: int) -> list[Match | Tick]:
    """The inputs without cancels, moved so that none is stamped before `first_ms`."""
    stamps = [
        each.time_ms if isinstance(each, Tick) else each.timestamp_ms
        for each in inputs
        if not isinstance(each, Cancel)
    ]
    by_ms = max(0, first_ms - min(stamps, default=first_ms))
    result: list[Match | Tick] = []
    for each in inputs:
        if isinstance(each, Match):
            event = each.event
            if event.time is not None:
                attributes = dict(event.attributes)
                moved = event.time + timedelta(milliseconds=by_ms)
                attributes["time"] = moved.isoformat().replace("+00:00", "Z")
                event = msgspec.structs.replace(event, attributes=attributes)
            result.append(msgspec.structs.replace(each, event=event, timestamp_ms=each.timestamp_ms + by_ms))
        elif isinstance(each, Tick):
            result.append(Tick(each.time_ms + by_ms))
    return result
