"""Whether the held events meet a condition, and which of them take part: one class for each kind of node.

The classes mirror the nodes of a condition, with matchers replaced by their numbers; `plan.py` builds them.
They read a `View` and keep no state. A node that needs no timer is monotone: a further event never makes a
met node unmet, unless `keep` lets it replace another. The cases cited are those of docs/use/conditions.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .view import Found, Partial, Parts, View

if TYPE_CHECKING:
    from .state import Match


class Node(ABC):
    """A node of a plan. numbers: the matchers below it whose events can take part."""

    numbers: tuple[int, ...]

    @abstractmethod
    def met(self, view: View) -> Found | None:
        """The events that meet the node, chosen as its cases say; None if it is not met."""

    @abstractmethod
    def partial(self, view: View) -> Partial:
        """The events that the node has so far, and the matchers that are missing."""

    def due_times(self, view: View) -> Iterator[int]:  # noqa: ARG002  # most nodes need no tick
        """The times after the clock at which a tick may meet the node."""
        return iter(())


@dataclass(frozen=True, eq=False)
class MatcherNode(Node):
    """A matcher, or `count`: met by `take` events of one matcher.

    distinct: of the events with the same value only the one chosen first counts (Q5).
    """

    number: int
    take: int
    latest: bool
    distinct: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", (self.number,))

    def met(self, view: View) -> Found | None:
        view.looks.left -= 1
        events = self.counted(view)
        return None if len(events) < self.take else Found(self.chosen(events, view.early))  # Q1

    def partial(self, view: View) -> Partial:
        events = self.counted(view)
        return Partial(self.chosen(events, view.early), (self.number,) if len(events) < self.take else ())

    def counted(self, view: View) -> Sequence[Match]:
        """The events that count, in the order T3: with `distinct` one for each value (Q5)."""
        events = view.events(self.number)
        if not self.distinct:
            return events
        view.looks.charge(len(events))
        return one_of_each_value(events, self.number, self.latest and not view.early)

    def chosen(self, events: Sequence[Match], early: bool) -> Parts:
        latest = self.latest and not early
        chosen = events[-self.take :] if latest else events[: self.take]  # H2, H3, Q2
        return tuple((self.number, match) for match in chosen)


def one_of_each_value(events: Sequence[Match], number: int, latest: bool) -> Sequence[Match]:
    """Of the events with the same value only the latest, else the earliest, in the given order T3."""
    found: dict[str, Match] = {}
    for match in reversed(events) if latest else events:
        found.setdefault(match.value_for(number), match)
    return events if len(found) == len(events) else sorted(found.values(), key=lambda match: match.rank)


@dataclass(frozen=True, eq=False)
class CombinationNode(Node):
    """Met when `need` of its operands are: all of them (A1), one (O1), at least n (N1)."""

    of: tuple[Node, ...]
    need: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", _numbers(self.of))

    def met(self, view: View) -> Found | None:
        found: list[Found] = []
        left = len(self.of) - self.need  # operands that may fail
        for node in self.of:  # O2, N1: in the order of the condition
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

    def due_times(self, view: View) -> Iterator[int]:
        for node in self.of:
            yield from node.due_times(view)


@dataclass(frozen=True, eq=False)
class SequenceNode(Node):
    """A sequence: its operands are met one after the other, each by its own events (P1, P3)."""

    of: tuple[Node, ...]
    latest: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", _numbers(self.of))

    def met(self, view: View) -> Found | None:
        parts: Parts = ()
        backward = self.latest and not view.early
        for node in reversed(self.of) if backward else self.of:  # P4
            found = met_latest(node, view) if backward else met_earliest(node, view)
            if found is None:
                return None
            parts += found.parts
            view = view_before(view, found) if backward else view_after(view, found)
        return Found(parts)

    def partial(self, view: View) -> Partial:
        whole = self.met(view)
        if whole is not None:
            return Partial(whole.parts, ())
        parts: Parts = ()
        for step, node in enumerate(self.of):  # X8: from its beginning
            found = met_earliest(node, view)
            if found is None:
                missing = tuple(dict.fromkeys(number for rest in self.of[step:] for number in rest.numbers))
                return Partial(parts, missing)
            parts += found.parts
            view = view_after(view, found)
        return Partial(parts, ())


@dataclass(frozen=True, eq=False)
class AbsentNode(Node):
    """`absent`: met when `duration_ms` have passed since State.timer_starts[index] (B1)."""

    index: int
    watched: tuple[int, ...]
    duration_ms: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", self.watched)

    def met(self, view: View) -> Found | None:
        last = view.timer_starts.get(self.index)
        if last is None or view.clock_ms < last + self.duration_ms:
            return None
        return Found(self._last(view), (self.index,))  # B3

    def partial(self, view: View) -> Partial:
        return Partial(self._last(view), ())

    def due_times(self, view: View) -> Iterator[int]:
        last = view.timer_starts.get(self.index)
        if last is not None and last + self.duration_ms > view.clock_ms:
            yield last + self.duration_ms

    def _last(self, view: View) -> Parts:
        return tuple((number, match) for number in self.watched for match in view.pools[number][-1:])


@dataclass(frozen=True, eq=False)
class QuietNode(Node):
    """`.quiet()`: met when `of` is and `duration_ms` have passed since State.timer_starts[index] (U1)."""

    index: int
    of: Node
    duration_ms: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", self.of.numbers)

    def met(self, view: View) -> Found | None:
        last = view.timer_starts.get(self.index)
        if last is None or view.clock_ms < last + self.duration_ms:
            return None
        return self.of.met(view)

    def partial(self, view: View) -> Partial:
        return self.of.partial(view)

    def due_times(self, view: View) -> Iterator[int]:
        last = view.timer_starts.get(self.index)
        if last is not None and last + self.duration_ms > view.clock_ms and self.of.met(view) is not None:
            yield last + self.duration_ms


def _numbers(nodes: Iterable[Node]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number for node in nodes for number in node.numbers))


def _union(partials: Iterable[Partial]) -> Partial:
    parts: Parts = ()
    missing: tuple[int, ...] = ()
    for one in partials:
        parts += one.parts
        missing += one.missing
    return Partial(parts, tuple(dict.fromkeys(missing)))


def met_latest(node: Node, view: View) -> Found | None:
    """Meets the node by events whose earliest one is as late as possible; None if it is not met."""
    if isinstance(node, MatcherNode):
        return node.met(view)
    for time in reversed(view.times(node.numbers)):
        found = node.met(view._replace(lo_us=time))
        if found is not None or view.looks.left < 0:
            return found
    return None


def met_earliest(node: Node, view: View) -> Found | None:
    """Meets the node by events whose latest one is as early as possible; None if it is not met."""
    view = view._replace(early=True)
    if isinstance(node, MatcherNode):
        return node.met(view)
    for time in view.times(node.numbers):
        found = node.met(view._replace(hi_us=time))
        if found is not None or view.looks.left < 0:
            return found
    return None


def view_after(view: View, found: Found) -> View:
    """The events left for the next operand of a sequence, once one is met."""
    taken = view.taken | {match.identity for _, match in found.parts}
    view.looks.charge(len(taken))
    return view._replace(lo_us=max(match.time_us for _, match in found.parts), taken=taken)


def view_before(view: View, found: Found) -> View:
    """The events left for the previous operand of a sequence, once one is met."""
    taken = view.taken | {match.identity for _, match in found.parts}
    view.looks.charge(len(taken))
    return view._replace(hi_us=min(match.time_us for _, match in found.parts), taken=taken)
