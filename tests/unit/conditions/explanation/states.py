"""States that a few events of types a, b and c give, and what an explanation shows of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from interlock.conditions import (
    EMPTY,
    Condition,
    Explanation,
    Match,
    State,
    Tick,
    event,
    explain,
    step,
)
from interlock.conditions.explanation.node import Explained, Note
from interlock.events import Event

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
MINUTE_MS = 60_000
a, b, c = event("a", label="a"), event("b", label="b"), event("c", label="c")


def at(minutes: float) -> int:
    """Milliseconds since the epoch, of a time in minutes after noon."""
    return NOON_MS + int(minutes * MINUTE_MS)


def held(condition: Condition, *sent: str, state: State = EMPTY) -> State:
    """The state after events named type + digit + "@stamp", or "@stamp@time" if the time differs, in minutes.

    "tick@5" is a tick.
    """
    for offset, text in enumerate(sent):
        name, stamp, *time = text.split("@")
        if name == "tick":
            state, _ = step(condition, state, Tick(at(float(stamp))))
            continue
        happened = NOON + timedelta(minutes=float(time[0] if time else stamp))
        sent_event = Event.of(name[0], "/s", id=name, time=happened)
        numbers = tuple(n for n, matcher in enumerate(condition.matchers) if matcher.accepts(sent_event))
        match = Match(sent_event, numbers, "events", 0, offset, at(float(stamp)))
        state, firings = step(condition, state, match)
        assert not firings, "the state of a test is one that has not fired"
    return state


def explained(condition: Condition, *sent: str, now: float = 100) -> Explanation:
    return explain(condition, held(condition, *sent), at(now))


def ids(node: Explained) -> list[str]:
    return [each.id for each in node.events]


def note(node: Explained, what: str) -> Note:
    found = [each for each in node.notes if each.what == what]
    assert found, f"no note {what} among {node.notes}"
    return found[0]
