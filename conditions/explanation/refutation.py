"""Refutations: which events of a `~` came in the windows that an event opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from ..evaluate.plan import Plan
from ..evaluate.windowing import NegatedWindowNode
from .records import Record

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Refutations(NamedTuple):
    """What may refute the events of one matcher.

    windows: those with `~` that each of its events opens. times: {number of a negated matcher: the times of
    its events, in microseconds}. labels: of all matchers.
    """

    windows: Sequence[NegatedWindowNode]
    times: Mapping[int, Sequence[int]]
    labels: Sequence[str]

    def of(self, record: Record) -> tuple[int, str] | None:
        """When a negated event came in the window that the record opened, in ms, and its label (E4, E5).

        None if there is none, or if another window that the record opened has none.
        """
        time_us = _time_us(record)
        if time_us is None:
            return None
        found: list[tuple[int, str]] = []
        for window in self.windows:
            low, high = window.bounds(time_us)
            negated = (
                (time, number)
                for number in window.negated
                for time in self.times.get(number, ())
                if low <= time <= high
            )
            first = min(negated, default=None)
            if first is None:
                return None
            found.append((first[0] // 1000, self.labels[first[1]]))
        return max(found, default=None)


def refutations(plan: Plan, number: int, times: Mapping[int, Sequence[int]]) -> Refutations:
    """Those of a matcher; none if its events have another place in the condition than windows with `~`."""
    windows = plan.held_by[number] or ()
    opened = tuple(window for window in windows if isinstance(window, NegatedWindowNode))
    return Refutations(opened if len(opened) == len(windows) else (), times, plan.labels)


def _time_us(record: Record) -> int | None:
    """The time of the event (T1); None if it has none and the record's timestamp is not known."""
    time = record.event.time
    if time is not None:
        return (time - _EPOCH) // _MICROSECOND
    return None if record.timestamp_ms is None else record.timestamp_ms * 1000
