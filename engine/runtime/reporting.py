"""What a running engine reports: problems to the waiting tasks, failing filters to the log, and its size."""

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
AGAIN_S: Final = 60.0  # at least, between two posts of a text that changes all the time
UNREAD = "Partitions"  # these are the components' names on the notice board
TIMERS = "Timers"
LOOK_BACKS = "Look-backs"
FULL_WAITS = "Full waits"
ELSEWHERE = "Partitions of other engines"
MOST_FILTERS = 1000
Post: TypeAlias = Callable[[str, str | None], None]


@dataclass(frozen=True)
class EngineSize:
    """How much an engine holds at one moment. `topics`: the listed topics of the bus.

    `late_timers`: 1 if its due timers have waited for long, else 0. `unread_topics`: listed topics that it
    cannot read; each engine looks at all of them.
    """

    partitions: int = 0
    unread_partitions: int = 0
    open_keys: int = 0
    registrations: int = 0
    topics: tuple[str, ...] = ()
    late_timers: int = 0
    unread_topics: int = 0


@dataclass
class EngineStatus:
    """What the successive engines of a process report.

    `stats`: summed over the engines. `size` (about a second old), `reporter`: of the current engine.
    """

    stats: Stats = field(default_factory=Stats)
    size: EngineSize = field(default_factory=EngineSize)
    reporter: StatusReporter | None = None


class StatusReporter:
    """Reports one engine's state, in its thread. Call `report` after each pass, and `close` at the end.

    post: takes a component and what is wrong with it, or None if nothing is.
    """

    def __init__(
        self,
        engine: Engine,
        post: Post,
        status: EngineStatus,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine, self._post, self._status, self._monotonic = engine, post, status, monotonic
        self._reported = monotonic() - LOOK_S
        self._timers_posted = monotonic() - AGAIN_S
        self._filters_logged: dict[str, float] = {}
        status.reporter = self

    def report(self) -> None:
        """Report problems and size; does nothing if the last call was less than LOOK_S ago."""
        now = self._monotonic()
        if now - self._reported < LOOK_S:
            return
        self._reported = now
        engine = self._engine
        self._report_problems(now)
        self._report_filters(engine.take_filter_errors(), now)
        bus = engine.registry.bus
        self._status.size = EngineSize(
            partitions=len(engine.partitions),
            unread_partitions=len(engine.ownership.unread),
            open_keys=sum(trigger.open_keys for trigger in engine.ownership.triggers.values()),
            registrations=len(engine.registry),
            late_timers=int(engine.problems.timers is not None),
            unread_topics=len(engine.ownership.listed.unreadable),
            topics=() if bus is None else bus.topics,
        )

    def close(self) -> None:
        """Clear the engine's problems and size, because it has ended."""
        for component in (UNREAD, TIMERS, LOOK_BACKS, FULL_WAITS, ELSEWHERE):
            self._post(component, None)
        if self._status.reporter is self:
            self._status.size = EngineSize(topics=self._status.size.topics)

    def _report_problems(self, now: float) -> None:
        problems = self._engine.problems
        self._post(UNREAD, " ".join(problems.unread()) or None)
        self._post(LOOK_BACKS, " ".join(problems.look_backs()) or None)
        self._post(FULL_WAITS, " ".join(problems.full_waits()) or None)
        self._post(ELSEWHERE, " ".join(problems.elsewhere()) or None)
        timers = problems.timers
        if timers is None:
            self._post(TIMERS, None)
            self._timers_posted = now - AGAIN_S
        elif now - self._timers_posted >= AGAIN_S:
            self._timers_posted = now
            self._post(TIMERS, timers)

    def _report_filters(self, errors: Counter[str], now: float) -> None:
        for text, count in errors.items():
            self._engine.stats.filter_errors += count
            if now - self._filters_logged.get(text, -AGAIN_S) < AGAIN_S:
                continue
            if len(self._filters_logged) >= MOST_FILTERS:
                self._filters_logged.clear()
            self._filters_logged[text] = now
            log.warning(
                "A filter failed on %d events within a second, so they did not match: %.500s",
                count,
                text,
            )
