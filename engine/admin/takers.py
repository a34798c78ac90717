"""Which registered subscriptions an event meets, which it nearly meets, and why it does not. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from ...conditions import EMPTY, Condition, ConditionError, Seen, explain
from ...conditions.explanation.near_miss import NearMiss
from ..protocol.tasks.trigger_task import single_key
from ..registry.registry import Registered

MOST_NEARLY: Final = 50
_MOST_OF_OTHER_KEYS: Final = 10  # they say little: all waits of a condition with other keys are such
_MOST_MET: Final = 500


class Nearly(NamedTuple):
    """A part of a subscription that an event nearly meets. miss: why it does not."""

    registered: Registered
    label: str
    miss: NearMiss


class Takers(NamedTuple):
    """met: the subscriptions that take the event, at most 500. nearly: at most MOST_NEARLY parts of others.

    left_out: how many more it meets.
    """

    met: tuple[Registered, ...]
    nearly: tuple[Nearly, ...]
    left_out: int


class _Part(NamedTuple):
    """How a matcher takes the event, whoever waits. key: of the event there; None if the matcher has none."""

    accepted: bool
    keyed: bool
    key: str | None


def takers_of(seen: Seen, subscriptions: Iterable[Registered]) -> Takers:
    """Who takes an event, among these subscriptions as they are registered now.

    A one-shot subscription takes an event of its own key only, and none from before its `since`. Whether one
    that takes it has counted it already, or has fired, is not looked up.
    """
    parts: dict[int, list[_Part]] = {}  # by id() of the condition, which many waits share
    met: list[Registered] = []
    others: list[Registered] = []
    other_keys: list[Registered] = []
    near: set[int] = set()
    for each in subscriptions:
        number = id(each.condition)
        if number not in parts:
            parts[number] = _parts(each.condition, seen)
        own = single_key(each) or None
        if _takes(each, parts[number], own, seen):
            met.append(each)
        elif any(part.accepted for part in parts[number]):
            if len(other_keys) < _MOST_OF_OTHER_KEYS:
                other_keys.append(each)
        elif number not in near and len(others) < MOST_NEARLY * 4:
            near.add(number)  # one wait of each condition says it for all
            others.append(each)
    nearly = [found for each in (*others, *other_keys) for found in _misses(each, seen)]
    return Takers(tuple(met[:_MOST_MET]), tuple(nearly[:MOST_NEARLY]), max(0, len(met) - _MOST_MET))


def _parts(condition: Condition, seen: Seen) -> list[_Part]:
    found = []
    for matcher in condition.matchers:
        accepted = matcher.accepts(seen.event)
        keyed = matcher.by is not None
        found.append(_Part(accepted, keyed, matcher.key_of(seen.event) if accepted and keyed else None))
    return found


def _takes(registered: Registered, parts: list[_Part], own: str | None, seen: Seen) -> bool:
    stamp, since = seen.timestamp_ms, registered.registration.since_ms
    if stamp is not None and stamp < since:
        return False
    return any(
        part.accepted and (not part.keyed or (part.key is not None and own in (None, part.key)))
        for part in parts
    )


def _misses(registered: Registered, seen: Seen) -> list[Nearly]:
    key = single_key(registered) or None
    state = msgspec.structs.replace(EMPTY, since_ms=registered.registration.since_ms)
    try:
        found = explain(registered.condition, state, seen.timestamp_ms or 0, (seen,), key)
    except ConditionError:
        return []
    return [Nearly(registered, each.label, miss) for each in found.near_misses for miss in each.misses]
