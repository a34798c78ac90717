"""All choices of events that meet a node, the preferred one first.

Nothing is incremental or limited: choices are found by enumerating all events in scope.
The cases cited are those of docs/use/conditions.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import combinations, product

from interlock.conditions import AllOf, AnyOf, Condition, Match, Matcher
from interlock.conditions.nodes.combinations import AtLeast, Count, Sequence
from interlock.conditions.nodes.timers import Absent, Quiet
from interlock.conditions.nodes.windows import Reset, Window, Within

from .periods import period_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Identity = tuple[str, str]
Rank = tuple[int, str, str]
DAY_MS = 24 * 3_600_000


def time_of(match: Match) -> int:
    """T1: the event's time in microseconds, else the record's."""
    time = match.event.time
    return match.timestamp_ms * 1000 if time is None else (time - _EPOCH) // timedelta(microseconds=1)


def rank(match: Match) -> Rank:
    """T3"""
    return (time_of(match), match.event.source, match.event.id)


@dataclass(frozen=True)
class Choice:
    """Events that meet a node: (matcher's number, event), and `absent` nodes that fire.

    drops_until_us: up to where I7 drops events beyond the latest part (E4), in microseconds.
    """

    parts: frozenset[tuple[int, Identity]] = frozenset()
    silences: frozenset[Absent] = frozenset()
    drops_until_us: int | None = None

    def __or__(self, other: Choice) -> Choice:
        return Choice(self.parts | other.parts, self.silences | other.silences)

    @property
    def identities(self) -> set[Identity]:
        return {identity for _, identity in self.parts}


@dataclass(frozen=True)
class View:
    """The events in scope, for each matcher in the order T3, and the timers that are due.

    forced: in a sequence, and in a window with `~`, the direction for all nodes below.
    """

    numbers: Mapping[Matcher, int]
    events: Mapping[int, tuple[Match, ...]]
    settled: frozenset[Condition] = frozenset()
    forced: str | None = None

    def of(self, node: Condition) -> list[Match]:
        """All events in scope of the matchers of a node, each once, in the order T3."""
        found = {m.identity: m for each in node.matchers for m in self.events.get(self.numbers[each], ())}
        return sorted(found.values(), key=rank)

    def where(self, wanted: Iterable[Match]) -> View:
        kept = {match.identity for match in wanted}
        return replace(
            self,
            events={
                number: tuple(match for match in matches if match.identity in kept)
                for number, matches in self.events.items()
            },
        )

    def direction(self, matcher: Matcher) -> str:
        """H2, H3: "latest" or "earliest"; P4, E4: the node around may decide."""
        return self.forced or ("latest" if matcher.keeps in (None, "latest") else "earliest")


def first_choice(node: Condition, view: View) -> Choice | None:
    return next(choices(node, view), None)


def choices(node: Condition, view: View) -> Iterator[Choice]:
    """Every way to meet a node, the preferred one first."""
    if isinstance(node, Matcher):
        yield from _of_matcher(node, 1, view)
    elif isinstance(node, Count):
        yield from _of_matcher(node.of, node.n, view, node.distinct is not None)  # Q1, Q2, Q5
    elif isinstance(node, AnyOf):
        for operand in node.operands:  # O1, O2
            yield from choices(operand, view)
    elif isinstance(node, AllOf):
        yield from _together(node.operands, view)  # A1
    elif isinstance(node, AtLeast) and node.distinct is not None:
        for some in combinations(node.operands, node.n):  # N4
            yield from _of_different_values(some, view)
    elif isinstance(node, AtLeast):
        for some in combinations(node.operands, node.n):  # N1
            yield from _together(some, view)
    elif isinstance(node, Sequence):
        choice, placed = _place(node, view)
        if placed == len(node.operands):
            yield choice
    elif isinstance(node, Window):
        yield from _of_window(node, view)
    elif isinstance(node, Absent):
        if node in view.settled:  # B1, B3
            yield Choice(_last_parts(node, view), silences=frozenset({node}))
    elif isinstance(node, Quiet):
        if node in view.settled:  # U1
            yield from choices(node.of, view)
    else:
        raise AssertionError(f"{type(node).__name__} is not met by events")


def value_of(match: Match, number: int) -> str:
    """Q5: what makes the event different from others of the matcher."""
    return (match.values or {})[number]


def _of_matcher(matcher: Matcher, n: int, view: View, distinct: bool = False) -> Iterator[Choice]:
    number = view.numbers[matcher]
    held = list(view.events.get(number, ()))
    if view.direction(matcher) == "latest":
        held.reverse()
    for some in combinations(held, n):
        if distinct and len({value_of(match, number) for match in some}) < n:
            continue
        yield Choice(frozenset((number, match.identity) for match in some))


def _of_different_values(operands: Iterable[Condition], view: View) -> Iterator[Choice]:
    """N5: one event of each matcher, in the order that it prefers; no two have the same value."""
    candidates: list[list[tuple[int, Match]]] = []
    for matcher in operands:
        assert isinstance(matcher, Matcher)
        number = view.numbers[matcher]
        held = [(number, match) for match in view.events.get(number, ())]
        candidates.append(held[::-1] if view.direction(matcher) == "latest" else held)
    for some in product(*candidates):
        if len({value_of(match, number) for number, match in some}) == len(some):
            yield Choice(frozenset((number, match.identity) for number, match in some))


def _together(operands: Iterable[Condition], view: View) -> Iterator[Choice]:
    """One choice of each operand; that of the last one varies fastest."""
    listed = list(operands)
    if any(first_choice(operand, view) is None for operand in listed):
        return
    yield from _joined(listed, view)


def _joined(operands: list[Condition], view: View) -> Iterator[Choice]:
    if not operands:
        yield Choice()
        return
    for choice in choices(operands[0], view):
        for rest in _joined(operands[1:], view):
            yield choice | rest


def goes_latest(node: Condition) -> bool:
    """I3, R3, P4"""
    return all(matcher.keeps in (None, "latest") for matcher in node.matchers)


def goes_earliest(node: Condition) -> bool:
    return all(matcher.keeps in ("first", "all") for matcher in node.matchers)


# -- sequences


def _place(node: Sequence, view: View) -> tuple[Choice, int]:
    """P1 to P4: the events of the operands in turn, and how many operands are met."""
    latest = view.forced == "latest" or (view.forced is None and goes_latest(node))
    return _placed(list(node.operands), view, latest)


def _placed(operands: list[Condition], view: View, latest: bool) -> tuple[Choice, int]:
    """From the end, each operand is met as late as possible; from the beginning, as early as possible."""
    view = replace(view, forced="latest" if latest else "earliest")
    whole, bound = Choice(), None
    for done, operand in enumerate(reversed(operands) if latest else operands):
        fits = [
            match
            for match in view.of(operand)
            if match.identity not in whole.identities  # P3
            and (bound is None or (time_of(match) <= bound if latest else time_of(match) >= bound))  # P2
        ]
        choice: Choice | None = None
        for edge in sorted({time_of(match) for match in fits}, reverse=latest):
            inside = [m for m in fits if (time_of(m) >= edge if latest else time_of(m) <= edge)]
            choice = first_choice(operand, view.where(inside))
            if choice is not None:
                bound = edge
                break
        if choice is None:
            return whole, done
        whole |= choice
    return whole, len(operands)


# -- windows


def _of_window(node: Window, view: View) -> Iterator[Choice]:
    if node.negated:  # met only when it ends (E9)
        return
    earliest = view.forced == "earliest" or (view.forced is None and goes_earliest(node))
    for _, inside in windows_of(node, view.of(node), earliest):
        yield from choices(node.of, view.where(inside))


def windows_of(
    node: Window, events: list[Match], earliest: bool
) -> Iterator[tuple[tuple[int, int], list[Match]]]:
    """I1, I3, R1, R3: (first and last microsecond, events inside), the preferred window first."""
    spans: dict[tuple[int, int], None] = {}
    for match in events:
        spans[span_of(node, time_of(match), begins=earliest)] = None
    for low, high in sorted(spans, reverse=not earliest):
        yield (low, high), [match for match in events if low <= time_of(match) <= high]


def span_of(node: Window, micros: int, *, begins: bool) -> tuple[int, int]:
    """The window that begins or ends at a time, or the period that holds it; both ends are inside."""
    if isinstance(node, Reset):
        start, end = period_of(node.cron, node.timezone, micros)
        return start, end - 1
    assert isinstance(node, Within)
    length = node.duration_ms * 1000
    return (micros, micros + length) if begins else (micros - length, micros)


def outermost_choices(node: Window, view: View) -> Iterator[Choice]:
    """I6, R4: the stamps of the events that take part are also close together."""
    earliest = goes_earliest(node)
    for span, inside in windows_of(node, view.of(node), earliest):
        stamps = sorted({match.timestamp_ms for match in inside}, reverse=not earliest)
        for stamp in stamps:
            if earliest:
                last = limit_of(node, stamp, span)
                recorded = [match for match in inside if stamp <= match.timestamp_ms <= last]
            else:
                recorded = [
                    match
                    for match in inside
                    if match.timestamp_ms <= stamp <= limit_of(node, match.timestamp_ms, span)
                ]
            yield from choices(node.of, view.where(recorded))


def limit_of(node: Window, stamp: int, span: tuple[int, int]) -> int:
    """The last stamp that may take part with this stamp, in the window or period `span`."""
    if isinstance(node, Reset):
        return max((span[1] + 1) // 1000, stamp) + node.late_ms
    assert isinstance(node, Within)
    return stamp + node.duration_ms + node.late_ms


def held_until(node: Window, match: Match) -> int:
    """I6, R4: the first tick later than this releases the event."""
    return limit_of(node, match.timestamp_ms, span_of(node, time_of(match), begins=False))


def window_end(node: Window, match: Match) -> int:
    """E6: the first tick at which the window that an event opens ends, in milliseconds."""
    if isinstance(node, Reset):
        end = period_of(node.cron, node.timezone, time_of(match))[1]
    else:
        end = span_of(node, time_of(match), begins=True)[1]
    return max(end // 1000 + node.late_ms, match.timestamp_ms) + 1


def refutes_until(node: Window, match: Match) -> int:
    """E8: the first tick later than this releases a negated event."""
    if isinstance(node, Reset):
        return period_of(node.cron, node.timezone, time_of(match))[1] // 1000 + node.late_ms + DAY_MS
    assert isinstance(node, Within)
    return time_of(match) // 1000 + node.duration_ms + node.late_ms + DAY_MS


def choice_at_end(node: Window, opening: Match, refuters: list[Match], view: View) -> Choice | None:
    """E3 to E5: the choice that fires when the window that `opening` opened ends."""
    low, high = span_of(node, time_of(opening), begins=True)
    if any(low <= time_of(match) <= high for match in refuters):
        return None
    inside = [match for match in view.of(node.positive) if low <= time_of(match) <= high]
    inner = replace(view, forced="earliest")
    for until in sorted({time_of(match) for match in inside}):
        choice = first_choice(node.positive, inner.where(m for m in inside if time_of(m) <= until))
        if choice is not None:
            if opening.identity not in choice.identities:
                return None
            return replace(choice, drops_until_us=high) if isinstance(node, Reset) else choice
    return None


# -- what an expiry reports


def taking_part_and_missing(
    node: Condition, view: View, *, outermost: bool = False
) -> tuple[frozenset[tuple[int, Identity]], frozenset[int]]:
    """X8: the events that take part, and the numbers of the missing matchers.

    outermost: the whole condition, or a branch of its outermost `|`; neither is met.
    """
    met = None if outermost else first_choice(node, view)
    if met is not None:
        return met.parts, frozenset()
    if isinstance(node, (Matcher, Count)):
        matcher, n = (node.of, node.n) if isinstance(node, Count) else (node, 1)
        number = view.numbers[matcher]
        held = view.events.get(number, ())
        if isinstance(node, Count) and node.distinct is not None:  # Q5
            ordered = held[::-1] if view.direction(matcher) == "latest" else held
            held = tuple(sorted({value_of(m, number): m for m in ordered[::-1]}.values(), key=rank))
        given = held[-n:] if view.direction(matcher) == "latest" else held[:n]
        missing = frozenset({number}) if len(held) < n else frozenset()
        return frozenset((number, match.identity) for match in given), missing
    if isinstance(node, AnyOf):
        return _of_all_at_expiry(node.operands, view, outermost=outermost)
    if isinstance(node, AtLeast) and node.distinct is not None:  # X8
        return _of_different_values_at_expiry(node, view)
    if isinstance(node, AtLeast):
        return _of_all_at_expiry(node.operands, view)
    if isinstance(node, AllOf):
        return _of_all_at_expiry(node.operands, view)
    if isinstance(node, Sequence):
        return _of_sequence_at_expiry(node, view)
    if isinstance(node, Window):
        return _of_window_at_expiry(node, view)
    if isinstance(node, Quiet):
        return taking_part_and_missing(node.of, view)
    if isinstance(node, Absent):
        return _last_parts(node, view), frozenset()
    raise AssertionError(f"{type(node).__name__} gives nothing")


def _of_all_at_expiry(
    operands: Iterable[Condition], view: View, *, outermost: bool = False
) -> tuple[frozenset[tuple[int, Identity]], frozenset[int]]:
    given: frozenset[tuple[int, Identity]] = frozenset()
    missing: frozenset[int] = frozenset()
    for operand in operands:
        parts, lacks = taking_part_and_missing(operand, view, outermost=outermost)
        given, missing = given | parts, missing | lacks
    return given, missing


def _of_different_values_at_expiry(
    node: AtLeast, view: View
) -> tuple[frozenset[tuple[int, Identity]], frozenset[int]]:
    for n in range(node.n - 1, 0, -1):
        for some in combinations(node.operands, n):
            choice = next(_of_different_values(some, view), None)
            if choice is not None:
                met = {number for number, _ in choice.parts}
                return choice.parts, frozenset(view.numbers[m] for m in node.matchers) - met
    return frozenset(), frozenset(view.numbers[matcher] for matcher in node.matchers)


def _of_sequence_at_expiry(
    node: Sequence, view: View
) -> tuple[frozenset[tuple[int, Identity]], frozenset[int]]:
    choice, placed = _placed(list(node.operands), view, latest=False)
    missing = {view.numbers[matcher] for operand in node.operands[placed:] for matcher in operand.matchers}
    return choice.parts, frozenset(missing)


def _of_window_at_expiry(node: Window, view: View) -> tuple[frozenset[tuple[int, Identity]], frozenset[int]]:
    positive = node.positive
    if node.negated:  # E4
        view = replace(view, forced="earliest")
    events = view.of(positive)
    if not events:
        return taking_part_and_missing(positive, view)
    low, high = span_of(node, time_of(events[-1]), begins=False)
    return taking_part_and_missing(
        positive, view.where(match for match in events if low <= time_of(match) <= high)
    )


def _last_parts(node: Absent, view: View) -> frozenset[tuple[int, Identity]]:
    """B3"""
    numbers = [view.numbers[matcher] for matcher in node.matchers]
    held = {number: view.events.get(number, ()) for number in numbers}
    return frozenset((number, matches[-1].identity) for number, matches in held.items() if matches)
