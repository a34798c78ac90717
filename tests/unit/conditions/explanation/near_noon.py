"""Events sent around noon, and the near misses that an explanation shows of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from interlock.conditions import EMPTY, Matcher, State, event, explain
from interlock.conditions.explanation.near_miss import NearMiss
from interlock.events import Event

NOON: Final = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOON_MS: Final = int(NOON.timestamp() * 1000)
DAY: Final = "2026-11-20"
rates: Final = event("com.bank.rates", by="data.day", label="rates")


def sent(id_: str = "r1", type_: str = "com.bank.rates", minutes: int = 0, **given: Any) -> Event:
    return Event.of(type_, "/bank", id=id_, time=NOON + timedelta(minutes=minutes), **given)


def misses_of(
    matcher: Matcher, events: Iterable[Any], key: str | None = None, state: State = EMPTY, most: int = 5
) -> tuple[NearMiss, ...]:
    explanation = explain(matcher, state, NOON_MS, events, key, near_misses=most)
    [found] = explanation.near_misses
    assert found.label == matcher.labels[0]
    return found.misses
