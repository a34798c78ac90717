"""Evaluation of windows: those met by events that lie together, and those with `~`, met when they end.

As in evaluation.py, the cases cited are those of docs/use/conditions.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .evaluation import Node
from .view import BEGINNING, END, Found, Partial, View

if TYPE_CHECKING:
    from ..nodes.calendar import Periods
    from .state import Match

# How long after its window the time of a negated event is kept. An opening event that is recorded at most
# this late still finds all negated events of its window (E8). Of a day of negated events, `redundant` leaves
# about two times in the state for each window length.
_NEGATED_TIMES_MS: Final = 86_400_000


@dataclass(frozen=True, eq=False)
class WindowNode(Node):
    """A sliding window (I1) or, with `periods`, a period (R1).

    bounded: it is an outermost window, which also limits how far stamps are apart (I6, R4).
    """

    of: Node
    duration_ms: int
    late_ms: int
    periods: Periods | None
    latest: bool
    bounded: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", self.of.numbers)

    def met(self, view: View) -> Found | None:
        if self.of.met(view) is None:  # not met even without the window
            return None
        if (
            self.bounded
            and self._apart(view, END - 1)
            and not any(self.of.met(choice) for choice in self._by_stamps(view, END - 1))
        ):  # not met even if event times are ignored
            return None
        for window, hi in self._windows(view):
            if view.looks.left < 0:
                return None
            found = self.of.met(window)
            if found is None:
                continue
            if not (self.bounded and self._apart(window, hi)):
                return found
            for choice in self._by_stamps(window, hi):
                found = self.of.met(choice)
                if found is not None or view.looks.left < 0:
                    return found
        return None

    def partial(self, view: View) -> Partial:
        found = self.met(view)
        if found is not None:
            return Partial(found.parts, ())
        times = view.times(self.numbers)
        if not times:
            return self.of.partial(view)
        lo, hi = self.bounds(times[-1], True)
        return self.of.partial(view._replace(lo_us=max(lo, view.lo_us), hi_us=min(hi, view.hi_us)))

    def until_ms(self, match: Match) -> int:
        """The last tick at which the window still holds the event (I6, R4)."""
        if self.periods is None:
            return match.timestamp_ms + self.duration_ms + self.late_ms
        end_us = self.periods.of(match.time_us)[1]
        return max(end_us // 1000, match.timestamp_ms) + self.late_ms

    def _windows(self, view: View) -> Iterator[tuple[View, int]]:
        """The windows to try, in the order of I3 and R3, each with its upper bound."""
        times = view.times(self.numbers)
        latest = self.latest and not view.early
        seen: set[int] = set()
        for time in reversed(times) if latest else times:  # I3, R3
            lo, hi = self.bounds(time, latest)
            if self.periods is not None:
                if lo in seen:
                    continue
                seen.add(lo)
            window = view._replace(lo_us=max(lo, view.lo_us), hi_us=min(hi, view.hi_us))
            yield window, hi

    def bounds(self, time_us: int, ends: bool) -> tuple[int, int]:
        """The period of a time, or the window that ends (else begins) with it; both bounds included."""
        if self.periods is not None:
            start, end = self.periods.of(time_us)
            return start, end - 1
        length = self.duration_ms * 1000
        return (time_us - length, time_us) if ends else (time_us, time_us + length)

    def _apart(self, window: View, hi_us: int) -> bool:
        """True if the stamps of the events in a window are too far apart to take part together."""
        stamps = window.stamps(self.numbers)
        return bool(stamps) and stamps[-1] > self._last_ms(stamps[0], hi_us)

    def _by_stamps(self, window: View, hi_us: int) -> Iterator[View]:
        """The sets of events in a window whose stamps are close enough (I6, R4), in the order of I3."""
        latest = self.latest and not window.early
        stamps = window.stamps(self.numbers)
        for stamp in reversed(stamps) if latest else stamps:
            if latest:
                yield window._replace(first_ms=self._first_ms(stamp, hi_us), last_ms=stamp)
            else:
                yield window._replace(first_ms=stamp, last_ms=self._last_ms(stamp, hi_us))

    def _last_ms(self, first_ms: int, hi_us: int) -> int:
        """The last stamp of an event that may take part with one stamped `first_ms`."""
        if self.periods is None:
            return first_ms + self.duration_ms + self.late_ms
        return max((hi_us + 1) // 1000, first_ms) + self.late_ms

    def _first_ms(self, last_ms: int, hi_us: int) -> int:
        """The first stamp of an event that may take part with one stamped `last_ms`."""
        if self.periods is None:
            return last_ms - self.duration_ms - self.late_ms
        return BEGINNING if last_ms <= (hi_us + 1) // 1000 + self.late_ms else last_ms - self.late_ms


@dataclass(frozen=True, eq=False)
class NegatedWindowNode(Node):
    """A window with `~`, met when it ends (E3 to E7). of: the condition without its `~` operands."""

    of: Node
    negated: tuple[int, ...]
    duration_ms: int
    late_ms: int
    periods: Periods | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", self.of.numbers)

    def met(self, view: View) -> Found | None:
        for match in self._openers(view):
            if not view.before_ms < self.due_ms(match) <= view.clock_ms:  # each window is evaluated once
                continue
            lo, hi = self.bounds(match.time_us)
            if any(
                lo <= time <= hi for number in self.negated for time in view.negated_times.get(number, ())
            ):
                continue  # E4, E5
            found = self._earliest(view._replace(lo_us=lo, hi_us=hi, early=True))
            if found is not None and any(part.identity == match.identity for _, part in found.parts):
                end = BEGINNING if self.periods is None else hi
                return found._replace(period_end_us=end)
        return None

    def partial(self, view: View) -> Partial:
        times = view.times(self.numbers)
        if not times:
            return self.of.partial(view)
        hi = times[-1]
        lo = hi - self.duration_ms * 1000 if self.periods is None else self.periods.of(hi)[0]
        return self.of.partial(view._replace(lo_us=lo, hi_us=hi, early=True))

    def due_times(self, view: View) -> Iterator[int]:
        for match in self._openers(view):
            due = self.due_ms(match)
            if due > view.clock_ms:
                yield due

    def due_ms(self, match: Match) -> int:
        """When the window that this event opens is evaluated (E6)."""
        return max(self._end_ms(match.time_us) + self.late_ms, match.timestamp_ms) + 1

    def until_ms(self, match: Match) -> int:
        """The last tick at which the window still holds the event (E7)."""
        return self.due_ms(match) - 1

    def remembered_until_ms(self, time_us: int) -> int:
        """The last tick at which the time of a negated event is still kept (E8)."""
        return self._end_ms(time_us) + self.late_ms + _NEGATED_TIMES_MS

    def _end_ms(self, time_us: int) -> int:
        """When the window that opens at this time ends."""
        if self.periods is None:
            return time_us // 1000 + self.duration_ms
        return self.periods.of(time_us)[1] // 1000

    def redundant(self, earlier_us: int, later_us: int) -> bool:
        """True if every window that holds a time between these two also holds one of the two (E8)."""
        if self.periods is None:
            return later_us - earlier_us <= self.duration_ms * 1000
        return self.periods.of(earlier_us) == self.periods.of(later_us)

    def _openers(self, view: View) -> list[Match]:
        """The events that open windows, in the order T3 (E3)."""
        unique = {match.identity: match for number in self.numbers for match in view.pools[number]}
        return sorted(unique.values(), key=lambda match: match.rank)

    def bounds(self, time_us: int) -> tuple[int, int]:
        """The window that an event of this time opens, both bounds included (E3)."""
        if self.periods is None:
            return time_us, time_us + self.duration_ms * 1000
        start, end = self.periods.of(time_us)
        return start, end - 1

    def _earliest(self, view: View) -> Found | None:
        """The events of the shortest prefix of the window that meets the condition (E4)."""
        for time in view.times(self.numbers):
            found = self.of.met(view._replace(hi_us=time))
            if found is not None or view.looks.left < 0:
                return found
        return None
