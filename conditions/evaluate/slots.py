"""The fast path for conditions of only `&` and `|`, in which each matcher has one slot: it holds one event.

Such conditions have masks (Plan.masks). The fast path gives the same results as run.py, several times faster.
Most conditions are of this form.
"""

from __future__ import annotations

from operator import itemgetter

import msgspec

from ..errors import ConditionError
from .firing import MET, Firing, Part
from .plan import Plan
from .seen import SEEN_MS, digest, is_seen, with_digest
from .state import Match, State, by_rank, of_another_condition, with_matchers


def step_slots(plan: Plan, state: State, match: Match) -> tuple[State, tuple[Firing, ...]]:
    """`step` for a match and a condition with masks."""
    attributes = match.event.attributes
    source, id_ = attributes["source"], attributes["id"]
    stamp, last, seen = match.timestamp_ms, state.last_ms, state.seen
    if last is None:
        last = stamp
    elif stamp > last:
        if stamp > last + SEEN_MS:
            seen = b""
        last = stamp
    new = digest(source, id_)
    if new in seen and is_seen(seen, new):  # D1
        return state, ()
    taken = 0
    for held in state.matches:
        other = held.event.attributes
        if other["id"] == id_ and other["source"] == source:  # D2
            return _with_seen(state, seen), ()
        for number in held.matchers:
            taken |= 1 << number
    if taken >> len(plan.capacities):
        raise ConditionError(of_another_condition(taken.bit_length() - 1, len(plan.capacities)))
    seen = with_digest(seen, new)
    matches = state.matches
    own = 0
    for number in match.matchers:
        own |= 1 << number
    if own & taken:
        matches, own = displaced(matches, match)  # L1, L2, L3
        taken = 0
        for held in matches:
            for number in held.matchers:
                taken |= 1 << number
        match = with_matchers(match, tuple(number for number in match.matchers if own >> number & 1))
    bits = own | taken
    if own:
        for mask in plan.masks:
            if bits & mask == mask:  # A1, O2
                # C1, C2, C3; the remaining events met nothing before and meet nothing now (S1)
                rest = () if bits == mask else tuple([h for h in matches if not holds_any(h, mask)])
                firing = _firing(plan, (*matches, match), mask)
                return State(rest, seen, last, (), state.clock_ms, state.since_ms), (firing,)
        matches = (*matches, match)
        if len(matches) > 1:
            matches = tuple(sorted(matches, key=by_rank))
    return State(matches, seen, last, (), state.clock_ms, state.since_ms), ()


def displaced(matches: tuple[Match, ...], match: Match) -> tuple[tuple[Match, ...], int]:
    """The matches that stay when `match` replaces earlier ones, and a mask of the matchers that hold it."""
    own = 0
    for number in match.matchers:
        holder = next((held for held in matches if number in held.matchers), None)
        if holder is None or match.rank > holder.rank:
            own |= 1 << number
    left = []
    for held in matches:
        numbers = tuple(number for number in held.matchers if not own >> number & 1)
        if numbers:
            left.append(with_matchers(held, numbers))
    return tuple(left), own


def _firing(plan: Plan, matches: tuple[Match, ...], mask: int) -> Firing:
    parts = [
        (number, Part(plan.labels[number], held))
        for held in matches
        for number in held.matchers
        if mask >> number & 1
    ]
    if len(parts) > 1:
        parts.sort(key=itemgetter(0))  # C5: by number
    return Firing(MET, tuple([part for _, part in parts]))


def holds_any(held: Match, mask: int) -> bool:
    """Whether one of these matchers holds the event."""
    return any(mask >> number & 1 for number in held.matchers)


def _with_seen(state: State, seen: bytes) -> State:
    return state if seen is state.seen else msgspec.structs.replace(state, seen=seen)
