"""What a running engine tells: its problems to the waiting tasks, failing filters to the log, its size."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ..log import log
from ..protocol.loop import Engine
from ..protocol.stats import Stats

LOOK_S: Final = 1.0
AGAIN_S: Final = 60.0  # between two sentences about what changes all the time
STOPPED = "Partitions"  # as the notice board calls them
TIMERS = "Timers"
LOOK_BACKS = "Look-backs"
FULL_WAITS = "Waits without room"
ELSEWHERE = "Partitions of other engines"
MOST_FILTERS = 1000
Post: TypeAlias = Callable[[str, str | None], None]


@dataclass(frozen=True)
class Size:
    """An engine at one moment. `topics`: the sources that the bus lists beside its event topic."""

    partitions: int = 0
    stopped: int = 0
    open_keys: int = 0
    registrations: int = 0
    topics: tuple[str, ...] = ()


@dataclass
class Account:
    """What the engines of a runtime tell, one after the other, for others to read.

    `stats`: counted on by each. `size`: of the present one, about a second old.
    """

    stats: Stats = field(default_factory=Stats)
    size: Size = field(default_factory=Size)
    teller: Teller | None = None


class Teller:
    """Speaks for one engine, in its thread: `look` after each pass (works once a second), then `end`.

    post: says what is wrong with a part, or None when it is over.
    """

    def __init__(
        self,
        engine: Engine,
        post: Post,
        account: Account,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine, self._post, self._account, self._monotonic = engine, post, account, monotonic
        self._looked = monotonic() - LOOK_S
        self._timers_said = monotonic() - AGAIN_S
        self._filters_said: dict[str, float] = {}
        account.teller = self

    def look(self) -> None:
        now = self._monotonic()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        engine = self._engine
        self._tell_problems(now)
        self._tell_filters(engine.take_filter_errors(), now)
        bus = engine.registry.bus
        self._account.size = Size(
            partitions=len(engine.partitions),
            stopped=len(engine.ownership.stopped),
            open_keys=sum(trigger.open_keys for trigger in engine.ownership.triggers.values()),
            registrations=len(engine.registry),
            topics=() if bus is None else bus.topics,
        )

    def end(self) -> None:
        """The engine is over: what it had to tell is no longer its business."""
        self._post(STOPPED, None)
        self._post(TIMERS, None)
        self._post(LOOK_BACKS, None)
        self._post(FULL_WAITS, None)
        self._post(ELSEWHERE, None)
        if self._account.teller is self:
            self._account.size = Size(topics=self._account.size.topics)

    def _tell_problems(self, now: float) -> None:
        problems = self._engine.problems
        self._post(STOPPED, " ".join(problems.stopped()) or None)
        self._post(LOOK_BACKS, " ".join(problems.look_backs()) or None)
        self._post(FULL_WAITS, " ".join(problems.full_waits()) or None)
        self._post(ELSEWHERE, " ".join(problems.elsewhere()) or None)
        timers = problems.timers
        if timers is None:
            self._post(TIMERS, None)
            self._timers_said = now - AGAIN_S
        elif now - self._timers_said >= AGAIN_S:
            self._timers_said = now
            self._post(TIMERS, timers)

    def _tell_filters(self, errors: Counter[str], now: float) -> None:
        for text, count in errors.items():
            self._engine.stats.filter_errors += count
            if now - self._filters_said.get(text, -AGAIN_S) < AGAIN_S:
                continue
            if len(self._filters_said) >= MOST_FILTERS:
                self._filters_said.clear()
            self._filters_said[text] = now
            log.warning(
                "A filter failed on %d events within a second, which so did not match: %.500s",
                count,
                text,
            )
