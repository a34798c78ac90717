"""Whether the events held meet a condition, and with which of them: one class for each node of a plan.

The classes mirror the nodes, with matchers replaced by their numbers; `plan.py` makes them. They look at a
`View`, keep nothing, and are monotone where only events meet a node: an event more never unmeets it, unless
`keep` takes it instead of another. Cases cited are those of docs/conditions.md.
"""

from __future__ import annotations

import bisect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from .calendar import Periods
    from .state import Match

BEGINNING: Final = -(2**62)
END: Final = 2**62

# One evaluation takes at most so many looks, a microsecond or two each: whoever may emit chooses the times of
# events, and what fits in which window is found by trying (H5).
MAX_LOOKS: Final = 20_000
_EVENTS_A_LOOK: Final = 8

Parts = tuple[tuple[int, "Match"], ...]  # (number of a matcher, event)


class Found(NamedTuple):
    """What makes a node met.

    disarmed: numbers of the `absent` nodes that took part (B3). period_end_us: where a period with `~` took
    part, its last microsecond: I7 then goes up to there.
    """

    parts: Parts
    disarmed: tuple[int, ...] = ()
    period_end_us: int = BEGINNING


class Partial(NamedTuple):
    """What there is of a node that is not met, and the numbers of the matchers that are missing (X8)."""

    parts: Parts
    missing: tuple[int, ...]


class Looks:
    """How many more looks at a matcher's events an evaluation may take; beyond, nothing is met (H5)."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_LOOKS


class View(NamedTuple):
    """The events that may take part, and the times to judge by.

    pools: by matcher, what it holds in the order T3. clock_ms: the due time being judged, else the last one;
    before_ms: the one before it. came, refuters: as in State. looks: shared by an evaluation. The rest
    narrows: bounds of time and of stamp, both included, events taken by other places of a sequence, and
    `early` where the earliest events are taken whatever `keep` says (P4, E4).
    """

    pools: Sequence[Sequence[Match]]
    clock_ms: int
    before_ms: int
    came: Mapping[int, int]
    refuters: Mapping[int, Sequence[int]]
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
            self.looks.left -= len(pool) // _EVENTS_A_LOOK
            pool = [match for match in pool if self.first_ms <= match.timestamp_ms <= self.last_ms]
        if self.taken:
            self.looks.left -= len(pool) // _EVENTS_A_LOOK
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


class Node(ABC):
    """A node of a plan. numbers: the matchers below it whose events can take part."""

    numbers: tuple[int, ...]

    @abstractmethod
    def met(self, view: View) -> Found | None:
        """What makes it met, as its cases choose; None if it is not."""

    @abstractmethod
    def partial(self, view: View) -> Partial:
        """What there is of it and what is missing."""

    def dues(self, view: View) -> Iterator[int]:  # noqa: ARG002  # events alone meet most nodes
        """The times later than the clock at which a tick may meet it."""
        return iter(())


@dataclass(frozen=True, eq=False)
class Leaf(Node):
    """A matcher, or `count`: `take` events of one matcher."""

    number: int
    take: int
    latest: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", (self.number,))

    def met(self, view: View) -> Found | None:
        view.looks.left -= 1
        events = view.events(self.number)
        return None if len(events) < self.take else Found(self._chosen(events, view.early))  # Q1

    def partial(self, view: View) -> Partial:
        events = view.events(self.number)
        return Partial(self._chosen(events, view.early), (self.number,) if len(events) < self.take else ())

    def _chosen(self, events: Sequence[Match], early: bool) -> Parts:
        latest = self.latest and not early
        chosen = events[-self.take :] if latest else events[: self.take]  # H2, H3, Q2
        return tuple((self.number, match) for match in chosen)


@dataclass(frozen=True, eq=False)
class Joined(Node):
    """Operands of which `need` must be met: all (A1), any (O1), at least n (N1)."""

    of: tuple[Node, ...]
    need: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", _numbers(self.of))

    def met(self, view: View) -> Found | None:
        found: list[Found] = []
        left = len(self.of) - self.need  # operands that may fail
        for node in self.of:  # O2, N1: in order of declaration
            one = node.met(view)
            if one is None:
                left -= 1
                if left < 0:
                    return None
                continue
            found.append(one)
            if len(found) == self.need:
                break
        if len(found) == 1:
            return found[0]
        return Found(
            tuple(part for one in found for part in one.parts),
            tuple(index for one in found for index in one.disarmed),
            max(one.period_end_us for one in found),
        )

    def partial(self, view: View) -> Partial:
        found = self.met(view)
        if found is not None:
            return Partial(found.parts, ())
        return _union(
            Partial(one.parts, ()) if (one := node.met(view)) else node.partial(view) for node in self.of
        )

    def dues(self, view: View) -> Iterator[int]:
        for node in self.of:
            yield from node.dues(view)


@dataclass(frozen=True, eq=False)
class Chain(Node):
    """A sequence: operands met one after the other, each by events of its own (P1, P3)."""

    of: tuple[Node, ...]
    latest: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", _numbers(self.of))

    def met(self, view: View) -> Found | None:
        parts: Parts = ()
        backward = self.latest and not view.early
        for node in reversed(self.of) if backward else self.of:  # P4
            found = latest(node, view) if backward else earliest(node, view)
            if found is None:
                return None
            parts += found.parts
            view = before(view, found) if backward else after(view, found)
        return Found(parts)

    def partial(self, view: View) -> Partial:
        whole = self.met(view)
        if whole is not None:
            return Partial(whole.parts, ())
        parts: Parts = ()
        for place, node in enumerate(self.of):  # X8: from its beginning
            found = earliest(node, view)
            if found is None:
                missing = tuple(dict.fromkeys(number for rest in self.of[place:] for number in rest.numbers))
                return Partial(parts, missing)
            parts += found.parts
            view = after(view, found)
        return Partial(parts, ())


@dataclass(frozen=True, eq=False)
class Together(Node):
    """A sliding window (I1), or, with `periods`, a period (R1).

    bounded: it is an outermost one, so that stamps count too (I6, R4).
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
        if self.of.met(view) is None:  # not even without the window
            return None
        if (
            self.bounded
            and self._apart(view, END - 1)
            and not any(self.of.met(choice) for choice in self._by_stamps(view, END - 1))
        ):  # not even with all times
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
        lo, hi = self._bounds(times[-1], True)
        return self.of.partial(view._replace(lo_us=max(lo, view.lo_us), hi_us=min(hi, view.hi_us)))

    def until_ms(self, match: Match) -> int:
        """The last tick at which the event is still held (I6, R4)."""
        if self.periods is None:
            return match.timestamp_ms + self.duration_ms + self.late_ms
        end_us = self.periods.of(match.time_us)[1]
        return max(end_us // 1000, match.timestamp_ms) + self.late_ms

    def _windows(self, view: View) -> Iterator[tuple[View, int]]:
        times = view.times(self.numbers)
        latest = self.latest and not view.early
        seen: set[int] = set()
        for time in reversed(times) if latest else times:  # I3, R3
            lo, hi = self._bounds(time, latest)
            if self.periods is not None:
                if lo in seen:
                    continue
                seen.add(lo)
            window = view._replace(lo_us=max(lo, view.lo_us), hi_us=min(hi, view.hi_us))
            yield window, hi

    def _bounds(self, time_us: int, ends: bool) -> tuple[int, int]:
        """The period of a time, or the window that ends (begins) with it; both bounds included."""
        if self.periods is not None:
            start, end = self.periods.of(time_us)
            return start, end - 1
        length = self.duration_ms * 1000
        return (time_us - length, time_us) if ends else (time_us, time_us + length)

    def _apart(self, window: View, hi_us: int) -> bool:
        """True if not all stamps of the events in a window lie together."""
        stamps = window.stamps(self.numbers)
        return bool(stamps) and stamps[-1] > self._last_ms(stamps[0], hi_us)

    def _by_stamps(self, window: View, hi_us: int) -> Iterator[View]:
        """The choices of events in a window whose stamps lie together (I6, R4), in the order of I3."""
        latest = self.latest and not window.early
        stamps = window.stamps(self.numbers)
        for stamp in reversed(stamps) if latest else stamps:
            if latest:
                yield window._replace(first_ms=self._first_ms(stamp, hi_us), last_ms=stamp)
            else:
                yield window._replace(first_ms=stamp, last_ms=self._last_ms(stamp, hi_us))

    def _last_ms(self, first_ms: int, hi_us: int) -> int:
        """The last stamp that an event may have beside one stamped `first_ms`."""
        if self.periods is None:
            return first_ms + self.duration_ms + self.late_ms
        return max((hi_us + 1) // 1000, first_ms) + self.late_ms

    def _first_ms(self, last_ms: int, hi_us: int) -> int:
        if self.periods is None:
            return last_ms - self.duration_ms - self.late_ms
        return BEGINNING if last_ms <= (hi_us + 1) // 1000 + self.late_ms else last_ms - self.late_ms


@dataclass(frozen=True, eq=False)
class Ending(Node):
    """A window with `~`, met by its end (E3 to E7). of: the condition without its `~` operands."""

    of: Node
    negated: tuple[int, ...]
    duration_ms: int
    late_ms: int
    periods: Periods | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", self.of.numbers)

    def met(self, view: View) -> Found | None:
        for match in self._openers(view):
            if not view.before_ms < self.due_ms(match) <= view.clock_ms:  # each window is judged once
                continue
            lo, hi = self._bounds(match.time_us)
            if any(lo <= time <= hi for number in self.negated for time in view.refuters.get(number, ())):
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

    def dues(self, view: View) -> Iterator[int]:
        for match in self._openers(view):
            due = self.due_ms(match)
            if due > view.clock_ms:
                yield due

    def due_ms(self, match: Match) -> int:
        """When the window that an event opens is judged (E6)."""
        if self.periods is None:
            end = match.time_us // 1000 + self.duration_ms
        else:
            end = self.periods.of(match.time_us)[1] // 1000
        return max(end + self.late_ms, match.timestamp_ms) + 1

    def until_ms(self, match: Match) -> int:
        """The last tick at which the event is still held (E7)."""
        return self.due_ms(match) - 1

    def remembered_until_ms(self, time_us: int) -> int:
        """The last tick at which the time of a negated event is still held (E8)."""
        end = (
            time_us // 1000 + self.duration_ms
            if self.periods is None
            else self.periods.of(time_us)[1] // 1000
        )
        return end + self.late_ms + _REFUTERS_MS

    def redundant(self, earlier_us: int, later_us: int) -> bool:
        """True if every window with a time between these two has one of them in it as well (E8)."""
        if self.periods is None:
            return later_us - earlier_us <= self.duration_ms * 1000
        return self.periods.of(earlier_us) == self.periods.of(later_us)

    def _openers(self, view: View) -> list[Match]:
        unique = {match.identity: match for number in self.numbers for match in view.pools[number]}
        return sorted(unique.values(), key=lambda match: match.rank)

    def _bounds(self, time_us: int) -> tuple[int, int]:
        if self.periods is None:
            return time_us, time_us + self.duration_ms * 1000
        start, end = self.periods.of(time_us)
        return start, end - 1

    def _earliest(self, view: View) -> Found | None:
        for time in view.times(self.numbers):
            found = self.of.met(view._replace(hi_us=time))
            if found is not None or view.looks.left < 0:
                return found
        return None


@dataclass(frozen=True, eq=False)
class Silence(Node):
    """`absent`: nothing has come since State.came[index] (B1)."""

    index: int
    watched: tuple[int, ...]
    duration_ms: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", self.watched)

    def met(self, view: View) -> Found | None:
        last = view.came.get(self.index)
        if last is None or view.clock_ms < last + self.duration_ms:
            return None
        return Found(self._last(view), (self.index,))  # B3

    def partial(self, view: View) -> Partial:
        return Partial(self._last(view), ())

    def dues(self, view: View) -> Iterator[int]:
        last = view.came.get(self.index)
        if last is not None and last + self.duration_ms > view.clock_ms:
            yield last + self.duration_ms

    def _last(self, view: View) -> Parts:
        return tuple((number, match) for number in self.watched for match in view.pools[number][-1:])


@dataclass(frozen=True, eq=False)
class Settled(Node):
    """`.quiet()`: met, and nothing has come since State.came[index] (U1)."""

    index: int
    of: Node
    duration_ms: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", self.of.numbers)

    def met(self, view: View) -> Found | None:
        last = view.came.get(self.index)
        if last is None or view.clock_ms < last + self.duration_ms:
            return None
        return self.of.met(view)

    def partial(self, view: View) -> Partial:
        return self.of.partial(view)

    def dues(self, view: View) -> Iterator[int]:
        last = view.came.get(self.index)
        if last is not None and last + self.duration_ms > view.clock_ms and self.of.met(view) is not None:
            yield last + self.duration_ms


# For how long beyond its window the time of a negated event is held: an opening event recorded late, by no
# more than this, is judged by all that came (E8). Costs two numbers for each length of the window.
_REFUTERS_MS: Final = 86_400_000


def _time(match: Match) -> int:
    return match.time_us


def _numbers(nodes: Iterable[Node]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number for node in nodes for number in node.numbers))


def _union(partials: Iterable[Partial]) -> Partial:
    parts: Parts = ()
    missing: tuple[int, ...] = ()
    for one in partials:
        parts += one.parts
        missing += one.missing
    return Partial(parts, tuple(dict.fromkeys(missing)))


def latest(node: Node, view: View) -> Found | None:
    """The node met by events that begin as late as can be."""
    if isinstance(node, Leaf):
        return node.met(view)
    for time in reversed(view.times(node.numbers)):
        found = node.met(view._replace(lo_us=time))
        if found is not None or view.looks.left < 0:
            return found
    return None


def earliest(node: Node, view: View) -> Found | None:
    """The node met by events that end as early as can be."""
    view = view._replace(early=True)
    if isinstance(node, Leaf):
        return node.met(view)
    for time in view.times(node.numbers):
        found = node.met(view._replace(hi_us=time))
        if found is not None or view.looks.left < 0:
            return found
    return None


def after(view: View, found: Found) -> View:
    """What a sequence has left for the operand after the one that was met."""
    taken = view.taken | {match.identity for _, match in found.parts}
    view.looks.left -= len(taken) // _EVENTS_A_LOOK
    return view._replace(lo_us=max(match.time_us for _, match in found.parts), taken=taken)


def before(view: View, found: Found) -> View:
    """What a sequence has left for the operand before the one that was met."""
    taken = view.taken | {match.identity for _, match in found.parts}
    view.looks.left -= len(taken) // _EVENTS_A_LOOK
    return view._replace(hi_us=min(match.time_us for _, match in found.parts), taken=taken)
