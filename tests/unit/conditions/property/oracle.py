"""The oracle: what `step` must do, written from docs/use/conditions.md; it shares only the nodes with it.

It keeps everything, evaluates everything again after each input, and is slow. choices.py decides what meets a
node; this module what is held, what waits, what is due and what a firing leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from interlock.conditions import AnyOf, Condition, Match, Matcher
from interlock.conditions.nodes.combinations import AtLeast, Count, Sequence
from interlock.conditions.nodes.timers import Absent, Expires, Ordered, Quiet
from interlock.conditions.nodes.windows import Not, Window

from .choices import (
    Choice,
    Identity,
    View,
    choice_at_end,
    first_choice,
    held_until,
    outermost_choices,
    rank,
    refutes_until,
    taking_part_and_missing,
    time_of,
    value_of,
    window_end,
)

REMEMBERED = 64  # D1
FORGOTTEN_AFTER_MS = 3_600_000  # D1
WAITING = 1_000  # W4
WINDOW_CAPACITY = 16  # H1
DEFAULT_LIMIT = 100  # H3


@dataclass(frozen=True)
class Tick:
    time_ms: int


@dataclass(frozen=True)
class Cancel:
    pass


@dataclass(frozen=True)
class Fired:
    """A firing, with parts as (label, source, id)."""

    outcome: str
    parts: tuple[tuple[str, str, str], ...]
    missing: tuple[str, ...]
    timer_ms: int | None

    def id(self, incarnation: str, key: str) -> str:
        """C6: each text is preceded by its length in bytes and a colon; SHA-256, 32 hex characters."""
        events = sorted({(source, id_) for _, source, id_ in self.parts})
        texts = [incarnation, key, self.outcome, *(text for identity in events for text in identity)]
        if self.timer_ms is not None:
            texts.append(str(self.timer_ms))
        framed = b"".join(str(len(raw)).encode() + b":" + raw for raw in map(str.encode, texts))
        return hashlib.sha256(framed).hexdigest()[:32]


class Oracle:
    """One key of one condition. `opened`: a wait starts at `at_ms`, with look-back `since_ms`."""

    def __init__(self, condition: Condition, at_ms: int | None = None, since_ms: int = 0) -> None:
        self.condition = condition
        self.numbers = {matcher: number for number, matcher in enumerate(condition.matchers)}
        self.core = condition
        self.expires: Expires | None = None
        self.is_ordered = any(isinstance(n, Sequence) and n.in_order for n in nodes(condition))  # W5
        while isinstance(self.core, (Expires, Ordered)):
            if isinstance(self.core, Expires):
                self.expires = self.core
            else:
                self.is_ordered = True
            self.core = self.core.of
        self.branches = self.core.operands if isinstance(self.core, AnyOf) else (self.core,)
        self.ends = [n for n in self.branches if isinstance(n, Window) and n.negated]
        self.silences = [n for n in nodes(condition) if isinstance(n, Absent)]
        self.quiets = [n for n in nodes(condition) if isinstance(n, Quiet)]
        self.has_timers = bool(self.ends or self.silences or self.quiets) or self.expires is not None
        self.capacities = self._capacities()
        self.drops_earlier = {self.numbers[m] for m in self._windowed() if m.keeps != "all"}  # I7
        self._reset(at_ms, since_ms)

    def _reset(self, at_ms: int | None, since_ms: int) -> None:
        self.held: dict[int, list[Match]] = {number: [] for number in self.numbers.values()}
        self.refuters: list[tuple[int, Match]] = []
        self.seen: list[Identity] = []
        self.last_ms: int | None = None  # D1
        self.waiting: list[Match] = []
        self.dropped = 0
        self.tick_ms: int | None = None
        self.since_ms = since_ms
        by_event = self.expires is None or self.expires.armed_by == "event"
        self.started_ms = None if by_event else at_ms  # X2
        self.from_subscription = at_ms is not None and not by_event
        self.judged: set[tuple[Condition, Identity]] = set()
        self.watched: dict[Absent, int] = {}  # the start of its time
        if at_ms is not None:
            self.watched = {n: at_ms for n in self.silences if n.armed_by == "subscription"}  # B2
        self.last_match: dict[Quiet, int] = {}
        self.settled: set[Condition] = set()

    # -- inputs

    def feed(self, given: Match | Tick | Cancel) -> list[Fired]:
        """The firings after an input."""
        if isinstance(given, Cancel):  # W9
            self._reset(None, 0)
            return []
        fired: list[Fired] = []
        if isinstance(given, Match):
            fired += self._arrive(given)
            fired += self._proceed(None)
        else:
            fired += self._proceed(given.time_ms)
            self.tick_ms = given.time_ms if self.tick_ms is None else max(self.tick_ms, given.time_ms)
            self._release(self.tick_ms)
        return fired

    def held_identities(self) -> dict[int, list[Identity]]:
        """The held events of each matcher that has some, in the order T3."""
        return {n: [m.identity for m in matches] for n, matches in self.held.items() if matches}

    def waiting_identities(self) -> list[Identity]:
        return [match.identity for match in self.waiting]

    # -- waiting

    def _arrive(self, match: Match) -> list[Fired]:
        if match.timestamp_ms < self.since_ms:  # Y1
            return []
        due = self.due()
        if self.is_ordered or (due is not None and match.timestamp_ms >= due):  # W1, W5, W6
            self.waiting.append(match)
            self.waiting.sort(key=lambda each: (each.timestamp_ms, *each.identity))
            if len(self.waiting) > WAITING:  # W4
                identities = self.waiting_identities()
                repeats = [n for n, each in enumerate(identities) if each in identities[:n]]
                del self.waiting[repeats[-1] if repeats else -1]
                self.dropped += not repeats
            return []
        return self._enter(match)

    def _proceed(self, until: int | None) -> list[Fired]:
        """W2, W3, W5: in order of time, waiting matches enter and due times are evaluated."""
        fired: list[Fired] = []
        while True:
            due = self.due()
            match = self.waiting[0] if self.waiting else None
            if (
                match is not None
                and (due is None or match.timestamp_ms < due)
                and (not self.is_ordered or (until is not None and match.timestamp_ms < until))
            ):
                self.waiting.pop(0)
                fired += self._enter(match)
            elif due is not None and until is not None and due <= until:
                fired += self._judge(due)
            else:
                return fired

    # -- a match

    def _enter(self, match: Match) -> list[Fired]:
        stamp = match.timestamp_ms
        if self.last_ms is not None and stamp > self.last_ms + FORGOTTEN_AFTER_MS:  # D1
            self.seen = []
        held = {m.identity for matches in self._there(stamp).values() for m in matches}
        if match.identity in self.seen or match.identity in held:  # D1, D2
            return []
        self.last_ms = stamp if self.last_ms is None else max(self.last_ms, stamp)
        self.seen = [*self.seen, match.identity][-REMEMBERED:]
        self.judged = {(node, identity) for node, identity in self.judged if identity != match.identity}
        if self.expires is not None and not (self.from_subscription and self.started_ms is not None):
            self.started_ms = stamp if self.started_ms is None else min(self.started_ms, stamp)  # X2
        for number in self.held:
            self.held[number] = [each for each in self.held[number] if each.identity != match.identity]
        for number in match.matchers:
            if number in self.capacities:
                self._hold(number, match)
        for number in match.matchers:
            if any(self.numbers[m] == number for node in self.ends for m in node.negated):
                self.refuters.append((number, match))
        for silence in self.silences:
            if any(self.numbers[m] in match.matchers for m in silence.matchers):  # B1
                self.watched[silence] = max(stamp, self.watched.get(silence, stamp))
                self.settled.discard(silence)
        for quiet in self.quiets:
            if any(self.numbers[m] in match.matchers for m in quiet.matchers):  # U1
                self.last_match[quiet] = max(stamp, self.last_match.get(quiet, stamp))
                self.settled.discard(quiet)
        for node in self.ends:  # W6
            if self.tick_ms is not None and window_end(node, match) <= self.tick_ms:
                self.judged.add((node, match.identity))
        return self._fire(None, [], stamp)

    def _hold(self, number: int, match: Match) -> None:
        matcher = self.condition.matchers[number]
        # an event that a tick at this stamp would release is no repeat (D2), and is dropped first (W7)
        others = list(self.held[number])
        held = sorted([*others, match], key=rank)
        if len(held) > self.capacities[number]:
            gone = [m for m in others if not self._is_needed(number, m, match.timestamp_ms)]
            if gone:
                held.remove(gone[0])
            elif same := self._repeated_values(number, held):  # Q7
                held.remove(same[-1] if matcher.keeps == "first" else same[0])
            elif matcher.keeps == "first":  # H2
                held.pop()
            else:
                held.pop(0)
                self.dropped += matcher.keeps == "all"  # H3
        self.held[number] = held

    def _repeated_values(self, number: int, held: list[Match]) -> list[Match]:
        """Q7: the held events whose value another has, in the order T3."""
        if number not in self.condition.distinct_paths:
            return []
        values = [value_of(match, number) for match in held]
        return [match for match in held if values.count(value_of(match, number)) > 1]

    def _there(self, now: int) -> dict[int, list[Match]]:
        """The held events without those that a tick at this time would release."""
        return {
            number: [match for match in matches if self._is_needed(number, match, now)]
            for number, matches in self.held.items()
        }

    def _capacities(self) -> dict[int, int]:
        """H1, H3: {number: capacity} of matchers that hold events; one that is only negated holds none."""
        capacities: dict[int, int] = {}
        windowed = self._windowed()
        for matcher, need in _needs(self.condition).items():
            if matcher.keeps == "all":
                capacities[self.numbers[matcher]] = max(need, matcher.limit or DEFAULT_LIMIT)
            else:
                capacities[self.numbers[matcher]] = max(need, WINDOW_CAPACITY if matcher in windowed else 1)
        return capacities

    def _windowed(self) -> set[Matcher]:
        """The matchers that stand in a window or a sequence."""
        return {
            matcher
            for node in nodes(self.condition)
            if isinstance(node, (Window, Sequence))
            for matcher in _needs(node)
        }

    # -- time

    def _dues(self) -> list[int]:
        times = [since + node.duration_ms for node, since in self.watched.items() if node not in self.settled]
        for node in self.quiets:
            if node not in self.settled and first_choice(node.of, self._view()) is not None:
                times.append(self.last_match[node] + node.duration_ms)
        times += [window_end(node, match) for node in self.ends for match in self._openings(node)]
        return times

    def due(self) -> int | None:
        """The earliest due time."""
        expiry = self._expiry()
        return min([*self._dues(), *([] if expiry is None else [expiry])], default=None)

    def _expiry(self) -> int | None:
        if self.expires is None or self.started_ms is None:
            return None
        times = []
        if self.expires.after_ms is not None:
            times.append(self.started_ms + self.expires.after_ms)
        at = self.expires.at_ms
        if at is not None and (self.started_ms < at or self.from_subscription):  # X3
            times.append(max(at, self.started_ms))
        return min(times, default=None)  # X5

    def _judge(self, due: int) -> list[Fired]:
        """W2: evaluate all that is due at one time; the expiry is last (X6)."""
        self._release(due - 1)
        for silence, since in self.watched.items():
            if since + silence.duration_ms <= due:
                self.settled.add(silence)
        for quiet in self.quiets:
            met = first_choice(quiet.of, self._view()) is not None
            if met and self.last_match[quiet] + quiet.duration_ms <= due:
                self.settled.add(quiet)
        over = [(n, m) for n in self.ends for m in self._openings(n) if window_end(n, m) <= due]
        fired = self._fire(due, over, due - 1)
        for node, match in over:
            self.judged.add((node, match.identity))  # E7
        expiry = self._expiry()
        if expiry is not None and expiry <= due:
            fired.append(self._expire(expiry))
        self._release(due)
        return fired

    def _openings(self, node: Window) -> list[Match]:
        """E3: the events whose windows have not ended, in the order T3."""
        return self._view_of(node).of(node.positive)

    def _release(self, now: int) -> None:
        """I6, R4, E7, E8, D1"""
        if self.last_ms is not None and now > self.last_ms + FORGOTTEN_AFTER_MS:
            self.seen = []
        for number, matches in self.held.items():
            self.held[number] = [match for match in matches if self._is_needed(number, match, now)]
        self.refuters = [
            (number, match)
            for number, match in self.refuters
            if any(
                number in {self.numbers[matcher] for matcher in node.negated}
                and now <= refutes_until(node, match)
                for node in self.ends
            )
        ]

    def _is_needed(self, number: int, match: Match, now: int) -> bool:
        matcher = self.condition.matchers[number]
        for node in self.branches:
            if matcher not in _needs(node):
                continue
            if not isinstance(node, Window):
                return True
            if node.negated:
                if (node, match.identity) not in self.judged:
                    return True
            elif now <= held_until(node, match):
                return True
        return False

    # -- firing

    def _view(self) -> View:
        return View(self.numbers, {n: tuple(m) for n, m in self.held.items()}, frozenset(self.settled))

    def _view_of(self, node: Window) -> View:
        whole = self._view()
        return whole.where(m for m in whole.of(node.positive) if (node, m.identity) not in self.judged)

    def _choice(self, over: list[tuple[Window, Match]]) -> Choice | None:
        """O1, O2 of the outermost `|`, or the whole condition."""
        for branch in self.branches:
            choice: Choice | None = None
            if isinstance(branch, Window) and branch.negated:
                for node, opening in over:  # E4: the earliest first
                    if node == branch and choice is None and opening in self._openings(node):
                        numbers = {self.numbers[matcher] for matcher in node.negated}
                        refuters = [m for number, m in self.refuters if number in numbers]
                        choice = choice_at_end(node, opening, refuters, self._view_of(node))
            elif isinstance(branch, Window):
                choice = next(outermost_choices(branch, self._view()), None)
            else:
                choice = first_choice(branch, self._view())
            if choice is not None:
                return choice
        return None

    def _fire(self, timer_ms: int | None, over: list[tuple[Window, Match]], now: int) -> list[Fired]:
        """S1"""
        fired: list[Fired] = []
        while (choice := self._choice(over)) is not None:
            fired.append(Fired("met", self._parts(choice.parts), (), timer_ms))
            used = choice.identities
            by = {number for number, _ in choice.parts if number in self.drops_earlier}
            latest = max((rank(m) for m in self._view().of(self.core) if m.identity in used), default=())
            values = {
                (number, value_of(match, number))
                for number in self.condition.distinct_paths
                for match in self.held[number]
                if (number, match.identity) in choice.parts
            }
            beyond = -1 if choice.drops_until_us is None else choice.drops_until_us
            for number, matches in self.held.items():
                self.held[number] = [
                    match
                    for match in matches
                    if match.identity not in used  # C1, C2
                    and not (values and (number, (match.values or {}).get(number)) in values)  # Q6
                    and not (number in by and (rank(match) <= latest or time_of(match) <= beyond))  # I7
                ]
            for silence in choice.silences:  # B3
                del self.watched[silence]
                self.settled.discard(silence)
            self._start_anew(now)
        return fired

    def _start_anew(self, now: int) -> None:
        """X2"""
        left = [match.timestamp_ms for matches in self._there(now).values() for match in matches]
        self.started_ms = min(left, default=None) if self.expires is not None else None
        self.from_subscription = False

    def _expire(self, timer_ms: int) -> Fired:
        """X1, X4, X8"""
        given, missing = taking_part_and_missing(self.core, self._view(), outermost=True)
        labels = tuple(label for n, label in enumerate(self.condition.labels) if n in missing)
        fired = Fired("expired", self._parts(given), labels, timer_ms)
        self.held = {number: [] for number in self.held}
        self.watched = {}
        self.settled = set()
        self.started_ms = None
        self.from_subscription = False
        return fired

    def _parts(self, chosen: frozenset[tuple[int, Identity]]) -> tuple[tuple[str, str, str], ...]:
        """C5"""
        return tuple(
            (self.condition.labels[number], *match.identity)
            for number in sorted(self.held)
            for match in self.held[number]
            if (number, match.identity) in chosen
        )


def nodes(condition: Condition) -> Iterator[Condition]:
    """A condition and all below it."""
    yield condition
    for operand in condition.operands:
        yield from nodes(operand)


def _needs(node: Condition) -> dict[Matcher, int]:
    """H1: {matcher: how many events one firing can take}, without negated matchers."""
    if isinstance(node, Not):
        return {}
    if isinstance(node, Matcher):
        return {node: 1}
    if isinstance(node, Count):
        return {node.of: node.n}
    if isinstance(node, AtLeast) and node.distinct is not None:  # N6
        return dict.fromkeys(node.matchers, node.n)
    needs: dict[Matcher, int] = {}
    for operand in node.operands:
        for matcher, need in _needs(operand).items():
            before = needs.get(matcher, 0)
            needs[matcher] = before + need if isinstance(node, Sequence) else max(before, need)
    return needs
