"""The plan: a condition prepared for `step`, made once for each condition. Cases: docs/use/conditions.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ..errors import ConditionError
from ..nodes.combinations import AllOf, AnyOf, AtLeast, Count, Sequence
from ..nodes.condition import Condition
from ..nodes.matcher import DEFAULT_LIMIT, Matcher
from ..nodes.timers import Absent, Expires, Ordered, Quiet
from ..nodes.windows import Not, Reset, Window, Within, is_matchers
from .distinct import DistinctNode
from .evaluation import AbsentNode, CombinationNode, MatcherNode, Node, QuietNode, SequenceNode
from .windowing import NegatedWindowNode, WindowNode

# How many events of a matcher are held inside a window or a sequence, where it is not known on arrival which
# of them belong together (H1). A larger number makes states larger and evaluation slower.
WINDOW_CAPACITY: Final = 16
# Limit on the number of windows to try for one event, estimated by `_cost`. MAX_LOOKS limits the evaluation.
MAX_COST: Final = 1_000_000


@dataclass(frozen=True, eq=False)
class Plan:
    """A condition in the form that `step` evaluates.

    root: the condition without its expiry and `.ordered()`. numbers: those of all matchers.

    One item for each matcher: labels; capacities: how many events it holds (H1); keeps_first, keeps_all:
    its `keep` (H2, H3); drops_earlier: whether a firing drops the events before those that take part (I7);
    held_by: the windows that decide how long its events are held; None: until they take part in a firing.
    negated: {number: the windows that negate it}. distinct: the matchers that count only one event for each
    value (Q5, N4).

    timer_matchers: for each `absent` or `.quiet()` node, the matchers whose stamps start its time;
    quiet_timers: which of these nodes are `.quiet()`; armed_at_start: which are
    `absent(armed_by="subscription")`. ordered: matches enter in the order of their stamps (W5).
    expires_after_ms, expires_at_ms: the expiry (X2, X3); expires_by_event: the first match starts it, even if
    the wait has a start. has_due_times: it has a timer. merge_independent: the order of arrival does not
    change firings (V3).
    masks: see `_masks`.
    """

    root: Node
    labels: tuple[str, ...]
    numbers: frozenset[int]
    capacities: tuple[int, ...]
    keeps_first: tuple[bool, ...]
    keeps_all: tuple[bool, ...]
    drops_earlier: tuple[bool, ...]
    held_by: tuple[tuple[WindowNode | NegatedWindowNode, ...] | None, ...]
    negated: Mapping[int, tuple[NegatedWindowNode, ...]]
    distinct: frozenset[int]
    timer_matchers: tuple[frozenset[int], ...]
    quiet_timers: frozenset[int]
    armed_at_start: tuple[int, ...]
    ordered: bool
    expires_after_ms: int | None
    expires_at_ms: int | None
    expires_by_event: bool
    has_due_times: bool
    merge_independent: bool
    masks: tuple[int, ...]

    @cached_property
    def releases_events(self) -> bool:
        """True if a window releases events that have not taken part in a firing."""
        return any(windows is not None for windows in self.held_by)

    @property
    def expires(self) -> bool:
        """True if it has an expiry."""
        return self.expires_after_ms is not None or self.expires_at_ms is not None

    @property
    def timed(self) -> bool:
        """True if `step` needs ticks."""
        return self.has_due_times or self.ordered

    @property
    def watches_from_the_start(self) -> bool:
        """True if an `absent` is armed by the start of the wait (B2)."""
        return bool(self.armed_at_start)

    @staticmethod
    def of(condition: Condition) -> Plan:
        """The plan of a whole condition; raises ConditionError if evaluating it costs too much."""
        return _Planner(condition).plan()


class _Planner:
    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._numbers = {matcher: number for number, matcher in enumerate(condition.matchers)}
        self._held_by: dict[int, list[WindowNode | NegatedWindowNode] | None] = {}
        self._timer_matchers: list[frozenset[int]] = []
        self._quiet_timers: set[int] = set()
        self._armed_at_start: list[int] = []
        self._negated_windows: list[NegatedWindowNode] = []
        self._in_order = False

    def plan(self) -> Plan:
        condition = self._condition
        root: Condition = condition
        after: int | None = None
        at: int | None = None
        by_event = False
        if isinstance(condition, Expires):
            root, after, at = condition.of, condition.after_ms, condition.at_ms
            by_event = condition.armed_by == "event"
        ordered = isinstance(root, Ordered)
        if isinstance(root, Ordered):
            root = root.of
        compiled = self._compile(root, outermost=True)
        in_windows = _in_windows(root)
        matchers = condition.matchers
        capacities = _capacities(root, matchers, in_windows)
        _check_cost(root, dict(zip(matchers, capacities, strict=True)))
        ordered = ordered or self._in_order
        has_due_times = bool(
            after is not None or at is not None or self._timer_matchers or self._negated_windows
        )
        is_simple = not (has_due_times or ordered) and all(
            matcher.keeps in (None, "latest") for matcher in matchers
        )
        held_by = tuple(self._held_by.get(number) for number in range(len(matchers)))
        return Plan(
            root=compiled,
            labels=condition.labels,
            numbers=frozenset(range(len(matchers))),
            capacities=capacities,
            keeps_first=tuple(matcher.keeps == "first" for matcher in matchers),
            keeps_all=tuple(matcher.keeps == "all" for matcher in matchers),
            drops_earlier=tuple(matcher in in_windows and matcher.keeps != "all" for matcher in matchers),
            held_by=tuple(None if windows is None else tuple(windows) for windows in held_by),
            negated=self._windows_by_negated(),
            distinct=frozenset(condition.distinct_paths),
            timer_matchers=tuple(self._timer_matchers),
            quiet_timers=frozenset(self._quiet_timers),
            armed_at_start=tuple(self._armed_at_start),
            ordered=ordered,
            expires_after_ms=after,
            expires_at_ms=at,
            expires_by_event=by_event,
            has_due_times=has_due_times,
            merge_independent=ordered or (is_matchers(root) and after is None and at is None),
            masks=_masks(root, self._numbers) if is_simple else (),
        )

    def _compile(self, node: Condition, outermost: bool = False) -> Node:
        """outermost: only `|` is around the node, so the condition fires as soon as the node is met (I6)."""
        if isinstance(node, Matcher):
            return self._leaf(node, 1)
        if isinstance(node, Count):
            return self._leaf(node.of, node.n, node.distinct is not None)
        if isinstance(node, AnyOf):
            return CombinationNode(tuple(self._compile(operand, outermost) for operand in node.of), 1)
        if isinstance(node, AllOf):
            return CombinationNode(tuple(self._compile(operand) for operand in node.of), len(node.of))
        if isinstance(node, AtLeast):
            if node.distinct is not None:
                leaves = (self._leaf(of, 1, True) for of in node.of if isinstance(of, Matcher))
                return DistinctNode(tuple(leaves), node.n)
            return CombinationNode(tuple(self._compile(operand) for operand in node.of), node.n)
        if isinstance(node, Sequence):
            self._in_order = self._in_order or node.in_order
            latest = all(matcher.keeps in (None, "latest") for matcher in node.matchers)
            return SequenceNode(tuple(self._compile(operand) for operand in node.of), latest)
        if isinstance(node, Window):
            return self._window(node, outermost)
        if isinstance(node, Quiet):
            of = self._compile(node.of)
            self._quiet_timers.add(len(self._timer_matchers))
            return QuietNode(self._add_timer(node), of, node.duration_ms)
        if isinstance(node, Absent):
            watched = tuple(self._numbers[matcher] for matcher in node.matchers)
            for number in watched:
                self._held_by[number] = None
            index = self._add_timer(node)
            if node.armed_by == "subscription":
                self._armed_at_start.append(index)
            return AbsentNode(index, watched, node.duration_ms)
        raise ConditionError(f"a {type(node).__name__} cannot stand here")

    def _leaf(self, matcher: Matcher, take: int, distinct: bool = False) -> MatcherNode:
        number = self._numbers[matcher]
        self._held_by[number] = None  # `_window` replaces None if the window is outermost
        return MatcherNode(number, take, matcher.keeps in (None, "latest"), distinct)

    def _window(self, node: Window, outermost: bool) -> Node:
        before = dict(self._held_by)
        of = self._compile(node.positive)
        duration = node.duration_ms if isinstance(node, Within) else 0
        periods = node.periods if isinstance(node, Reset) else None
        made: WindowNode | NegatedWindowNode
        if node.negated:
            negated = tuple(self._numbers[matcher] for matcher in node.negated)
            made = NegatedWindowNode(of, negated, duration, node.late_ms, periods)
            self._negated_windows.append(made)
        else:
            first = all(matcher.keeps in ("first", "all") for matcher in node.matchers)
            made = WindowNode(of, duration, node.late_ms, periods, not first, outermost)
        if outermost:
            for number in of.numbers:
                earlier = before.get(number, [])
                self._held_by[number] = None if earlier is None else [*earlier, made]
        return made

    def _windows_by_negated(self) -> dict[int, tuple[NegatedWindowNode, ...]]:
        """{number of a matcher: the windows that negate it}."""
        found: dict[int, tuple[NegatedWindowNode, ...]] = {}
        for window in self._negated_windows:
            for number in window.negated:
                found[number] = (*found.get(number, ()), window)
        return found

    def _add_timer(self, node: Condition) -> int:
        """The number of a new timer, which the stamps of the node's matchers start."""
        self._timer_matchers.append(frozenset(self._numbers[matcher] for matcher in node.matchers))
        return len(self._timer_matchers) - 1


def _capacities(
    root: Condition, matchers: tuple[Matcher, ...], in_windows: frozenset[Matcher]
) -> tuple[int, ...]:
    """How many events each matcher holds (H1, H3)."""
    needs = _needs(root)
    capacities = []
    for matcher in matchers:
        capacity = max(needs.get(matcher, 0), WINDOW_CAPACITY if matcher in in_windows else 0)
        if matcher.keeps == "all" and matcher in needs:
            capacity = max(matcher.limit or DEFAULT_LIMIT, needs[matcher])
        capacities.append(capacity)
    return tuple(capacities)


def _needs(node: Condition) -> dict[Matcher, int]:
    """How many events of each matcher can take part in one firing (H1); no entry for one only negated."""
    if isinstance(node, Matcher):
        return {node: 1}
    if isinstance(node, Count):
        return {node.of: node.n}
    if isinstance(node, Not):
        return {}
    if isinstance(node, AtLeast) and node.distinct is not None:
        return dict.fromkeys(node.matchers, node.n)  # N6: whatever values the others take, one is left
    needs: dict[Matcher, int] = {}
    for operand in node.operands:
        for matcher, n in _needs(operand).items():
            had = needs.get(matcher, 0)
            needs[matcher] = had + n if isinstance(node, Sequence) else max(had, n)
    return needs


def _in_windows(node: Condition, inside: bool = False) -> frozenset[Matcher]:
    """The matchers that stand in a window or a sequence."""
    if isinstance(node, Not):
        return frozenset()
    if isinstance(node, Matcher):
        return frozenset((node,)) if inside else frozenset()
    inside = inside or isinstance(node, (Window, Sequence))
    return frozenset().union(*(_in_windows(operand, inside) for operand in node.operands))


def _check_cost(root: Condition, capacities: Mapping[Matcher, int]) -> None:
    cost = _cost(root, capacities)
    if cost > MAX_COST:
        raise ConditionError(
            f"one event could need a search of {cost} windows: at most {MAX_COST}; nest fewer windows, or"
            " put fewer matchers into them"
        )


def _cost(node: Condition, capacities: Mapping[Matcher, int]) -> int:
    """An estimate of how many sets of events one event makes `met` try."""
    if isinstance(node, (Matcher, Count)):
        return 1
    below = sum(_cost(operand, capacities) for operand in node.operands)
    events = sum(capacities[matcher] for matcher in node.matchers)
    if isinstance(node, Window):
        return below * events
    if isinstance(node, Sequence):
        return sum(
            1 if isinstance(operand, (Matcher, Count)) else _cost(operand, capacities) * events
            for operand in node.of
        )
    return below


def _masks(root: Condition, numbers: Mapping[Matcher, int]) -> tuple[int, ...]:
    """Bit masks of matchers, in the order of O2: the matchers of any one mask meet the condition together.

    Empty unless the condition is a matcher, an `&` of matchers, or an `|` of these. For these conditions
    `step` takes the fast path in slots.py, if each matcher holds one event.
    """
    branches = root.of if isinstance(root, AnyOf) else (root,)
    masks = []
    for branch in branches:
        leaves = branch.of if isinstance(branch, AllOf) else (branch,)
        if not all(isinstance(leaf, Matcher) for leaf in leaves):
            return ()
        masks.append(sum(1 << numbers[leaf] for leaf in leaves if isinstance(leaf, Matcher)))
    return tuple(masks)
