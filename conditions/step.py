"""The decision: what a match does to the state of a key, and whether the condition is met by it.

Pure: no clock, no I/O, equal arguments give equal results. The cases cited are those of docs/conditions.md.
A state at rest never meets its condition (S1), and nodes are monotone (an event more never unmeets one), so
one input gives at most one firing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Final

import msgspec

from .condition import Condition, Shape
from .errors import ConditionError
from .state import SEEN_EVENTS, Match, State, with_held

MET: Final = "met"
_DIGEST_BYTES: Final = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


class Part(msgspec.Struct, frozen=True, array_like=True):
    """One matcher's share in a firing: its label in the condition, and the event."""

    label: str
    match: Match


class Firing(msgspec.Struct, frozen=True, array_like=True):
    """The decision that a condition is met for one key: parts that took part, in their matchers' order."""

    outcome: str
    taking_part: tuple[Part, ...]


def step(condition: Condition, state: State, match: Match) -> tuple[State, tuple[Firing, ...]]:
    """The state after a match, and what fired.

    state: of the same condition and key. match.matchers: all matchers that accepted the event with this key;
    one event enters once, with all of them. ConditionError for a number the condition does not have.
    """
    if not match.matchers or not 0 <= min(match.matchers) <= max(match.matchers) < len(condition.matchers):
        raise ConditionError(
            f"matchers {match.matchers} of a match: the condition has {len(condition.matchers)}"
        )
    held = state.held
    digest = _digest(match.identity)
    if _is_seen(state.seen, digest) or any(match.identity == other.identity for other in held.values()):
        return state, ()  # D1, D2, D3
    seen = (state.seen + digest)[-SEEN_EVENTS * _DIGEST_BYTES :]
    for number in match.matchers:
        if number not in held or _rank(match) > _rank(held[number]):  # M1; L1, L2, L3
            held[number] = match
    numbers = _taking_part(condition.shape, held)
    if numbers is None:
        return with_held(held, seen), ()
    used = {held[number].identity for number in numbers}
    # C1, C2: an event that took part leaves every matcher that holds it; C3: all others stay
    rest = {number: other for number, other in held.items() if other.identity not in used}
    # the parts carry the matchers that hold their event, as the state does
    final = {number: other for other in with_held(held, b"").matches for number in other.matchers}
    parts = tuple(Part(condition.labels[number], final[number]) for number in sorted(numbers))
    return with_held(rest, seen), (Firing(MET, parts),)


def firing_id(incarnation: str, key: str, outcome: str, parts: Iterable[Part]) -> str:
    """The id of a firing, 32 hex characters: the same for the same decision, however often it is taken.

    A hash of incarnation, key, outcome and the sorted (source, id) of the events; order, labels, positions in
    the log and times of the parts do not enter.
    """
    events = sorted({part.match.identity for part in parts})
    # each text is preceded by its length: no two lists of texts give the same bytes
    texts = [incarnation, key, outcome, *(text for identity in events for text in identity)]
    framed = b"".join(b"%d:%s" % (len(raw), raw) for raw in (text.encode("utf-8") for text in texts))
    return hashlib.sha256(framed).hexdigest()[:32]


def _taking_part(shape: Shape, held: Mapping[int, Match]) -> frozenset[int] | None:
    """The matchers that make `shape` met, or None if it is not."""
    if isinstance(shape, int):
        return frozenset((shape,)) if shape in held else None
    kind, operands = shape
    if kind == "any":
        for operand in operands:  # O1, O2: in order of declaration
            numbers = _taking_part(operand, held)
            if numbers is not None:
                return numbers
        return None
    union: frozenset[int] = frozenset()
    for operand in operands:  # A1, A2
        numbers = _taking_part(operand, held)
        if numbers is None:
            return None
        union |= numbers
    return union


def _rank(match: Match) -> tuple[int, str, str]:
    """Later events rank higher: by event time (`time`, else the record's), then source and id."""
    time = match.event.time
    micros = match.timestamp_ms * 1000 if time is None else (time - _EPOCH) // _MICROSECOND
    return (micros, *match.identity)


def _digest(identity: tuple[str, str]) -> bytes:
    source, id_ = identity
    framed = f"{len(source)}:{source}{id_}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(framed, digest_size=_DIGEST_BYTES).digest()


def _is_seen(seen: bytes, digest: bytes) -> bool:
    start = seen.find(digest)
    while start != -1 and start % _DIGEST_BYTES:
        start = seen.find(digest, start + 1)
    return start != -1
