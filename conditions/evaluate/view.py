"""The input of an evaluation: the events that may take part, and the clock."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from .state import Match

BEGINNING: Final = -(2**62)
END: Final = 2**62

# An evaluation looks at the events of a matcher at most this often, at 1 to 2 us each (H5). Without a limit,
# event times chosen on purpose could make the search through windows very long.
MAX_LOOKS: Final = 20_000
_EVENTS_A_LOOK: Final = 8

Parts = tuple[tuple[int, "Match"], ...]  # (number of a matcher, event)


class Found(NamedTuple):
    """The events that meet a node.

    disarmed: numbers of the `absent` nodes that took part (B3). period_end_us: if a period with `~` took
    part, its last microsecond, up to which I7 drops events.
    """

    parts: Parts
    disarmed: tuple[int, ...] = ()
    period_end_us: int = BEGINNING


class Partial(NamedTuple):
    """The events that an unmet node has so far, and the numbers of the matchers that are missing (X8)."""

    parts: Parts
    missing: tuple[int, ...]


class Looks:
    """How often one evaluation may still look at the events of a matcher (H5).

    left: below 0, no further window, step or set of events is tried.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_LOOKS

    def charge(self, events: int) -> None:
        """Count a pass over this many events."""
        self.left -= events // _EVENTS_A_LOOK


class View(NamedTuple):
    """The events that may take part, and the clock.

    pools: for each matcher, its events in the order T3. clock_ms: the due time that is evaluated, else
    the last tick; before_ms: the clock before that. timer_starts, negated_times: as in State.
    looks: shared by a whole evaluation. The other fields narrow the view. lo_us, hi_us: bounds of event time;
    first_ms, last_ms: bounds of stamp; all included. taken: events that other steps of a sequence use.
    early: ignore `keep`, the earliest events take part (P4, E4).
    """

    pools: Sequence[Sequence[Match]]
    clock_ms: int
    before_ms: int
    timer_starts: Mapping[int, int]
    negated_times: Mapping[int, Sequence[int]]
    looks: Looks
    lo_us: int = BEGINNING
    hi_us: int = END
    first_ms: int = BEGINNING
    last_ms: int = END
    taken: frozenset[tuple[str, str]] = frozenset()
    early: bool = False

    def events(self, number: int) -> Sequence[Match]:
        """The events of a matcher that may take part, in the order T3."""
        pool = self.pools[number]
        if not pool:
            return pool
        start, stop = 0, len(pool)
        if self.lo_us != BEGINNING:
            start = bisect.bisect_left(pool, self.lo_us, key=_time)
        if self.hi_us != END:
            stop = bisect.bisect_right(pool, self.hi_us, start, key=_time)
        if stop - start < len(pool):
            pool = pool[start:stop]
        if self.first_ms != BEGINNING or self.last_ms != END:
            self.looks.charge(len(pool))
            pool = [match for match in pool if self.first_ms <= match.timestamp_ms <= self.last_ms]
        if self.taken:
            self.looks.charge(len(pool))
            pool = [match for match in pool if match.identity not in self.taken]
        return pool

    def times(self, numbers: Iterable[int]) -> list[int]:
        """The distinct times of the events of these matchers, ascending."""
        self.looks.left -= len(self.pools)
        return sorted({match.time_us for number in numbers for match in self.events(number)})

    def stamps(self, numbers: Iterable[int]) -> list[int]:
        """The distinct stamps of the events of these matchers, ascending."""
        self.looks.left -= len(self.pools)
        return sorted({match.timestamp_ms for number in numbers for match in self.events(number)})


def _time(match: Match) -> int:
    return match.time_us
