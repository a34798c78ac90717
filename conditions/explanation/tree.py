"""The tree of an explanation, built from a condition and its plan side by side.

Each node of the plan is evaluated with the same events as in `step`, so the explanation agrees with it. A met
node shows only the events that take part; an unmet one shows what an expiry would report (X8).
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from typing import Final

from ..evaluate.distinct import DistinctNode
from ..evaluate.evaluation import (
    AbsentNode,
    CombinationNode,
    MatcherNode,
    Node,
    QuietNode,
    SequenceNode,
    met_earliest,
    met_latest,
)
from ..evaluate.run import Run
from ..evaluate.state import Match
from ..evaluate.view import BEGINNING, END, Found, View
from ..evaluate.windowing import NegatedWindowNode, WindowNode
from ..nodes.combinations import AnyOf, AtLeast, Count
from ..nodes.condition import Condition
from ..nodes.countable import values_of_key
from ..nodes.duration import duration_text
from ..nodes.timers import Absent, Expires, Ordered, Quiet, moment_text
from ..nodes.windows import Not, Reset, Window, Within
from .node import MAX_EVENTS, Apart, EventRef, Explained, Note
from .records import reference
from .scope import Scope

_MAX_APART: Final = 3
# How many windows of a `~` are evaluated: the latest ones.
_MAX_OPENERS: Final = 64
# The windows of a `~`, from the least to the most interesting: refuted; not met yet; met when it ends.
_REFUTED, _OPEN, _MAY_FIRE = range(3)


class Explainer:
    """Explains the nodes of a condition by the nodes of its plan."""

    def __init__(self, condition: Condition, run: Run, now_ms: int, key: str | None) -> None:
        self._run, self._now_ms, self._key = run, now_ms, key
        self._labels = run.plan.labels
        self._numbers = {matcher: number for number, matcher in enumerate(condition.matchers)}
        self._distinct = {
            number: paths if isinstance(paths, str) else ", ".join(paths)
            for number, paths in condition.distinct_paths.items()
        }

    def explained(self, condition: Condition, scope: Scope) -> Explained:
        """The tree of the whole condition, or of the part inside its expiry and `.ordered()`."""
        if isinstance(condition, Expires):
            return self._expires(condition, scope)
        if isinstance(condition, Ordered):
            inner = self.explained(condition.of, scope)
            return Explained("ordered", "ordered", inner.met, notes=(Note("in_order"),), of=(inner,))
        return self._node(condition, self._run.plan.root, scope)

    def _expires(self, condition: Expires, scope: Scope) -> Explained:
        inner = self.explained(condition.of, scope)
        title = "expires"
        if condition.after_ms is not None:
            title += f" after {duration_text(condition.after_ms)}"
        if condition.at_ms is not None:
            title += f" at {moment_text(condition.at_ms)}"
        expiry = self._run.expiry_ms()
        if expiry is not None:
            notes: tuple[Note, ...] = (Note("expires", at_ms=expiry),)
        elif self._run.opened_ms is None and self._run.armed_ms is None:
            notes = (Note("expiry_not_armed"),)
        else:
            notes = ()
        return Explained("expires", title, inner.met, notes=notes, of=(inner,))

    def _node(self, condition: Condition, node: Node, scope: Scope) -> Explained:
        if isinstance(node, MatcherNode):
            return self._leaf(condition, node, scope)
        if isinstance(node, CombinationNode):
            return self._combination(condition, node, scope)
        if isinstance(node, DistinctNode):
            return self._distinct_matchers(condition, node, scope)
        if isinstance(node, SequenceNode):
            return self._sequence(condition, node, scope)
        if isinstance(node, WindowNode) and isinstance(condition, Window):
            return self._window(condition, node, scope)
        if isinstance(node, NegatedWindowNode) and isinstance(condition, Window):
            return self._negated_window(condition, node, scope)
        if isinstance(node, AbsentNode) and isinstance(condition, Absent):
            return self._absent(condition, node, scope)
        if isinstance(node, QuietNode) and isinstance(condition, Quiet):
            return self._quiet(condition, node, scope)
        met = node.met(scope.view) is not None  # a new kind of node, not handled above
        return Explained(type(condition).__name__.lower(), str(condition)[:200], met)

    # -- events

    def _leaf(self, condition: Condition, node: MatcherNode, scope: Scope) -> Explained:
        parts = node.partial(scope.view).parts
        label = self._labels[node.number]
        met = len(parts) >= node.take
        counts = isinstance(condition, Count)
        same = len(scope.view.events(node.number)) - len(node.counted(scope.view))
        notes = [Note("same_value", number=same, text=self._distinct[node.number])] if same else []
        if not met and (values := {match.value_for(node.number) for _, match in parts} - {""}):
            lacking = self._lacking(condition, node, values)
            shown, what = (lacking, "values_missing") if lacking else (values, "values")
            notes.append(Note(what, number=len(values), text=", ".join(sorted(shown))))
        notes += self._full(node)
        return Explained(
            "count" if counts else "event",
            f"count of {label}" if counts else label,
            met,
            labels=(label,),
            have=len(parts),
            need=node.take,
            events=_references(match for _, match in parts),
            held=len(self._run.pools[node.number]),
            apart=() if met else self._apart(node.number, scope),
            notes=tuple(notes),
        )

    def _lacking(self, condition: Condition, node: MatcherNode, values: set[str]) -> frozenset[str]:
        """The values still needed, if all that the key can have are, and they are fewer than those there."""
        if self._key is None or not isinstance(condition, Count) or not isinstance(condition.distinct, str):
            return frozenset()
        every = values_of_key(condition.distinct, condition.of, self._key) or frozenset()
        lacking = every - values
        return lacking if len(every) == node.take and len(lacking) < len(values) else frozenset()

    def _full(self, node: MatcherNode) -> list[Note]:
        """That it holds more than one firing needs, and no further events (H1 to H3).

        The event that is missing, or with which another one would fit, may have been dropped.
        """
        plan, number = self._run.plan, node.number
        most = plan.capacities[number]
        if most <= node.take or len(self._run.pools[number]) < most:
            return []
        return [Note("full", number=most, text="latest" if plan.keeps_first[number] else "earliest")]

    def _apart(self, number: int, scope: Scope) -> tuple[Apart, ...]:
        """The held events that do not count in this scope, the nearest first."""
        inside = {match.identity for match in scope.view.events(number)}
        outside = [match for match in scope.view.pools[number] if match.identity not in inside]
        excluded = [self._excluded(match, scope) for match in outside]
        return tuple(sorted(excluded, key=lambda apart: apart.by_ms or 0)[:_MAX_APART])

    def _excluded(self, match: Match, scope: Scope) -> Apart:
        for bound in reversed(scope.bounds):
            by_us = max(bound.lo_us - match.time_us, match.time_us - bound.hi_us)
            if by_us > 0:
                return Apart(reference(match), bound.why, -(-by_us // 1000))
        return Apart(reference(match), "taken" if match.identity in scope.view.taken else "recorded")

    # -- combinations

    def _combination(self, condition: Condition, node: CombinationNode, scope: Scope) -> Explained:
        pairs = zip(condition.operands, node.of, strict=True)
        below = [self._node(operand, each, scope) for operand, each in pairs]
        return self._of_combination(condition, node.need, node.met(scope.view) is not None, below)

    def _distinct_matchers(self, condition: Condition, node: DistinctNode, scope: Scope) -> Explained:
        """The matchers that are met together, by events with different values (N4)."""
        parts = node.partial(scope.view).parts
        together = {number for number, _ in parts}
        own = scope.only(parts)
        below: list[Explained] = []
        for operand, leaf in zip(condition.operands, node.of, strict=True):
            if leaf.number in together:
                below.append(self._node(operand, leaf, own))
                continue
            alone = self._node(operand, leaf, scope)
            if alone.met:
                taken = Note("value_taken", text=self._distinct[leaf.number])
                alone = replace(alone, met=False, have=0, notes=(*alone.notes, taken))
            below.append(alone)
        return self._of_combination(condition, node.need, len(parts) == node.need, below)

    def _of_combination(
        self, condition: Condition, need: int, met: bool, below: list[Explained]
    ) -> Explained:
        have = 0
        for number, each in enumerate(below):
            if met and (have >= need or not each.met):  # O2, N1
                below[number] = replace(each, needed=False)
            have += each.met
        kind, title = "all", "all of"
        if isinstance(condition, AnyOf):
            kind, title = "any", "any of"
        elif isinstance(condition, AtLeast):
            kind, title = "at_least", f"at least {need} of {len(below)}"
        return Explained(kind, title, met, have=min(have, need), need=need, of=tuple(below))

    def _sequence(self, condition: Condition, node: SequenceNode, scope: Scope) -> Explained:
        """A met sequence as in P4; an unmet one from its beginning, as an expiry reports it (X8)."""
        whole = node.met(scope.view)
        backward = whole is not None and node.latest and not scope.view.early
        steps = list(enumerate(zip(condition.operands, node.of, strict=True)))
        below: dict[int, Explained] = {}
        first_missing: int | None = None
        for number, (operand, step) in reversed(steps) if backward else steps:
            found = met_latest(step, scope.view) if backward else met_earliest(step, scope.view)
            if found is None:
                first_missing = number if first_missing is None else first_missing
                below[number] = self._node(operand, step, scope)
                continue
            below[number] = self._node(operand, step, scope.only(found.parts))
            scope = scope.beside(found, backward)
        notes = () if first_missing is None else (Note("next_step", number=first_missing + 1),)
        return Explained(
            "sequence",
            "in this order",
            whole is not None,
            have=len(steps) if first_missing is None else first_missing,
            need=len(steps),
            notes=notes,
            of=tuple(below[number] for number, _ in steps),
        )

    # -- windows

    def _window(self, condition: Window, node: WindowNode, scope: Scope) -> Explained:
        found = node.met(scope.view)
        times = scope.view.times(node.numbers)
        notes: list[Note] = []
        if found is not None:
            below = self._node(condition.of, node.of, scope.only(found.parts))
        elif not times:
            if node.periods is not None:
                notes.append(_period(*node.periods.of(self._now_ms * 1000)))
            below = self._node(condition.of, node.of, scope)
        else:  # X8: the window of the latest event
            hi_us = times[-1]
            lo_us = hi_us - node.duration_ms * 1000
            if node.periods is not None:
                lo_us, end_us = node.periods.of(hi_us)
                notes.append(_period(lo_us, end_us))
                hi_us = end_us - 1
            inside = scope.narrowed("window" if node.periods is None else "period", lo_us, hi_us)
            notes += self._time_left(node, inside.view)
            below = self._node(condition.of, node.of, inside)
            in_time = node.of.met(inside.view)
            if in_time is not None:
                notes.append(Note("recorded_apart", by_ms=_too_far_ms(node, in_time, hi_us)))
        return self._of_window(condition, found is not None, notes, (below,))

    def _time_left(self, node: WindowNode, view: View) -> list[Note]:
        """When the earliest event leaves the window, and until when it is held."""
        first = min(
            ((match.rank, number, match) for number in node.numbers for match in view.events(number)),
            default=None,
        )
        if first is None:
            return []
        _, number, match = first
        label = self._labels[number]
        notes = []
        if node.periods is None:
            ends = match.time_us // 1000 + node.duration_ms
            notes.append(Note("slides_out", at_ms=ends, label=label))
        if node.bounded:
            notes.append(Note("held_until", at_ms=node.until_ms(match), label=label))
        return notes

    def _of_window(
        self, condition: Window, met: bool, notes: SequenceOf[Note], below: tuple[Explained, ...]
    ) -> Explained:
        if isinstance(condition, Reset):
            zone = "" if condition.timezone == "UTC" else f" ({condition.timezone})"
            title = f'in a period of "{condition.cron}"{zone}'
        else:
            assert isinstance(condition, Within)  # noqa: S101  # the other kind of window
            title = f"within {duration_text(condition.duration_ms)}"
        kind = "reset" if isinstance(condition, Reset) else "within"
        return Explained(kind, title, met, notes=tuple(notes), of=below)

    def _negated_window(self, condition: Window, node: NegatedWindowNode, scope: Scope) -> Explained:
        """The open window that may fire first; else the latest one (E3 to E7)."""
        openers = self._openers(node, scope.view)
        notes: list[Note] = []
        inside, span, refuted = scope, None, 0
        best_rank = -1
        for match in openers:
            opened = self._opened(node, match, scope)
            is_refuted = _refuted(node, scope.view, node.bounds(match.time_us))
            refuted += is_refuted
            rank = _REFUTED if is_refuted else _OPEN if node.of.met(opened.view) is None else _MAY_FIRE
            # of windows that may fire, the first is shown; of others, the latest
            if rank > best_rank or (rank == best_rank and rank < _MAY_FIRE):
                best_rank, inside, span, opener = rank, opened, node.bounds(match.time_us), match
        if span is None:
            notes.append(Note("no_window"))
        else:
            number = next(number for number in node.numbers if opener in scope.view.pools[number])
            notes.append(Note("opened", at_ms=opener.time_us // 1000, label=self._labels[number]))
            if node.periods is not None:
                notes.append(_period(span[0], span[1] + 1))
            notes.append(Note("over", at_ms=node.due_ms(opener)))
            number_of = {
                "other_windows": len(openers) - refuted - (best_rank > _REFUTED),
                "refuted_windows": refuted - (best_rank == _REFUTED),
            }
            notes += [Note(what, number=several) for what, several in number_of.items() if several]
        met = node.met(scope.view) is not None
        return self._of_window(
            condition, met, notes, (self._inside_negated_window(condition, node, inside, span),)
        )

    def _opened(self, node: NegatedWindowNode, match: Match, scope: Scope) -> Scope:
        """The scope of the window that an event opens."""
        inside = scope.narrowed("window" if node.periods is None else "period", *node.bounds(match.time_us))
        return inside._replace(view=inside.view._replace(early=True))

    def _inside_negated_window(
        self, condition: Window, node: NegatedWindowNode, inside: Scope, span: tuple[int, int] | None
    ) -> Explained:
        operands = condition.of.operands
        positive = [operand for operand in operands if not isinstance(operand, Not)]
        nodes = node.of.of if isinstance(node.of, CombinationNode) and len(positive) > 1 else (node.of,)
        nodes_of = dict(zip(positive, nodes, strict=True))
        below = [
            self._negation(operand, inside.view, span)
            if isinstance(operand, Not)
            else self._node(operand, nodes_of[operand], inside)
            for operand in operands
        ]
        met = span is not None and all(each.met for each in below)
        return self._of_combination(condition, len(below), met, below)

    def _negation(self, condition: Not, view: View, span: tuple[int, int] | None) -> Explained:
        labels = tuple(self._labels[self._numbers[matcher]] for matcher in condition.matchers)
        times = [
            time
            for matcher in condition.matchers
            for time in view.negated_times.get(self._numbers[matcher], ())
            if span is not None and span[0] <= time <= span[1]
        ]
        notes = (Note("refuted", at_ms=min(times) // 1000),) if times else ()
        return Explained("not", f"no {' or '.join(labels)}", not times, labels=labels, notes=notes)

    def _openers(self, node: NegatedWindowNode, view: View) -> list[Match]:
        """The events whose windows have not been evaluated yet, in the order T3."""
        unique = {match.identity: match for number in node.numbers for match in view.pools[number]}
        waiting = [match for match in unique.values() if node.due_ms(match) > view.clock_ms]
        return sorted(waiting, key=lambda match: match.rank)[-_MAX_OPENERS:]

    # -- timers

    def _absent(self, condition: Absent, node: AbsentNode, scope: Scope) -> Explained:
        labels = tuple(self._labels[number] for number in node.watched)
        met = node.met(scope.view) is not None
        start = scope.view.timer_starts.get(node.index)
        notes: tuple[Note, ...] = ()
        if start is None:
            fresh = self._run.last_ms is None and self._run.state.clock_ms is None
            notes = (Note("not_opened" if fresh and condition.armed_by == "subscription" else "not_armed"),)
        elif not met:
            notes = (Note("fires", at_ms=start + node.duration_ms),)
        return Explained(
            "absent",
            f"no {' or '.join(labels)} for {duration_text(condition.duration_ms)}",
            met,
            labels=labels,
            events=_references(match for _, match in node.partial(scope.view).parts),
            notes=notes,
        )

    def _quiet(self, condition: Quiet, node: QuietNode, scope: Scope) -> Explained:
        below = self._node(condition.of, node.of, scope)
        met = node.met(scope.view) is not None
        start = scope.view.timer_starts.get(node.index)
        notes: tuple[Note, ...] = ()
        if below.met and not met and start is not None:
            notes = (Note("settles", at_ms=start + node.duration_ms),)
        return Explained(
            "quiet", f"quiet for {duration_text(condition.duration_ms)}", met, notes=notes, of=(below,)
        )


def _references(matches: Iterable[Match]) -> tuple[EventRef, ...]:
    return tuple(reference(match) for match in list(matches)[:MAX_EVENTS])


def _period(start_us: int, end_us: int) -> Note:
    return Note(
        "period",
        from_ms=None if start_us == BEGINNING else start_us // 1000,
        at_ms=None if end_us == END else end_us // 1000,
    )


def _refuted(node: NegatedWindowNode, view: View, span: tuple[int, int]) -> bool:
    return any(
        span[0] <= time <= span[1] for number in node.negated for time in view.negated_times.get(number, ())
    )


def _too_far_ms(node: WindowNode, found: Found, hi_us: int) -> int | None:
    """By how much the stamps of events are too far apart although their times are not (I6, R4)."""
    stamps = [match.timestamp_ms for _, match in found.parts]
    limit = min(stamps) + node.duration_ms
    if node.periods is not None:
        limit = max((hi_us + 1) // 1000, min(stamps))
    by = max(stamps) - limit - node.late_ms
    return by if by > 0 else None
