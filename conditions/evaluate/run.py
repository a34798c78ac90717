"""Applies one input to an unpacked state, and finds when its timers are due. Cases: docs/use/conditions.md.

Not public. `step` makes a Run for one input and returns its result; others make one only to read from it.
"""

from __future__ import annotations

import bisect
from collections import Counter
from typing import Final, Literal

from ..errors import ConditionError
from .firing import EXPIRED, MET, Firing, Part
from .plan import Plan
from .seen import SEEN_MS, digest, is_seen, with_digest
from .state import Match, State, as_matches, by_rank, of_another_condition, with_matchers
from .view import BEGINNING, Found, Looks, Parts, View

MAX_WAITING: Final = 1000
MAX_NEGATED_TIMES: Final = 1000


class Run:
    """A state unpacked into one pool of held events for each matcher. An input changes it in place."""

    def __init__(self, plan: Plan, state: State) -> None:
        self.plan = plan
        self.state = state
        self.pools: list[list[Match]] = [[] for _ in plan.capacities]
        for match in state.matches:
            for number in match.matchers:
                if not 0 <= number < len(self.pools):
                    raise ConditionError(of_another_condition(number, len(self.pools)))
                self.pools[number].append(match)
        if state.negated_times.keys() - plan.negated.keys():
            raise ConditionError(of_another_condition(max(state.negated_times), len(self.pools)))
        self.seen = state.seen
        self.last_ms = state.last_ms
        self.waiting = list(state.waiting)
        self.clock_ms = BEGINNING if state.clock_ms is None else state.clock_ms
        self.opened_ms = state.opened_ms
        self.armed_ms = state.armed_ms
        self.timer_starts = dict(state.timer_starts)
        self.negated_times = dict(state.negated_times)
        self.dropped = state.dropped
        self.firings: list[Firing] = []
        self.now_ms = BEGINNING  # the stamp of the match that enters, or 1 ms before the due time that fires

    def result(self) -> tuple[State, tuple[Firing, ...]]:
        """The state as it is now, packed again, and the firings so far."""
        return State(
            matches=as_matches(self.pools),
            seen=self.seen,
            last_ms=self.last_ms,
            waiting=tuple(self.waiting),
            clock_ms=None if self.clock_ms == BEGINNING else self.clock_ms,
            since_ms=self.state.since_ms,
            opened_ms=self.opened_ms,
            armed_ms=self.armed_ms,
            timer_starts=self.timer_starts,
            negated_times=self.negated_times,
            dropped=self.dropped,
        ), tuple(self.firings)

    # -- inputs

    def take(self, match: Match) -> None:
        """A match arrives: it waits if it must (W1, W5); else it enters."""
        due = self.due_ms() if self.plan.has_due_times else None
        if self.plan.ordered or (due is not None and match.timestamp_ms >= due):  # W5, W1
            bisect.insort(self.waiting, match, key=waiting_order)
            if len(self.waiting) > MAX_WAITING:
                self._drop_waiting()
            return
        self.enter(match)
        self.advance(None)

    def _drop_waiting(self) -> None:
        """Drop the last repeat among the waiting matches; without repeats, the last match (W4)."""
        earlier: set[tuple[str, str]] = set()
        repeats = []
        for index, match in enumerate(self.waiting):
            if match.identity in earlier:
                repeats.append(index)
            earlier.add(match.identity)
        if repeats:
            del self.waiting[repeats[-1]]
        else:
            self.waiting.pop()
            self.dropped += 1

    def tick(self, time_ms: int) -> None:
        """A tick: fire what is due up to then, and release what can no longer take part (W2, W7)."""
        self.advance(time_ms)
        self.clock_ms = max(self.clock_ms, time_ms)
        self._release(self.clock_ms)

    def advance(self, until_ms: int | None) -> None:
        """Fire due times up to `until_ms`, and let waiting matches enter between them (W2, W3)."""
        while True:
            due = self.due_ms() if self.plan.has_due_times else None
            first = self.waiting[0].timestamp_ms if self.waiting else None
            ready = first is not None and (
                not self.plan.ordered or (until_ms is not None and first < until_ms)
            )
            if first is not None and ready and (due is None or first < due):
                self.enter(self.waiting.pop(0))
            elif due is not None and until_ms is not None and due <= until_ms:
                self.evaluate_at(due)
            else:
                return

    def enter(self, match: Match) -> None:
        """Hold the match, start the timers that it starts, and fire if the condition is now met."""
        # An event that a tick before this stamp would have released does not count for this match, whether
        # that tick came or not (W7). It stays in the pool, because matches with earlier stamps may still
        # arrive from other partitions.
        self.now_ms = match.timestamp_ms
        if self._is_repeat(match):
            return
        self.last_ms = match.timestamp_ms if self.last_ms is None else max(self.last_ms, match.timestamp_ms)
        if self.plan.expires:  # X2: the earliest, so that the order of arrival does not matter
            armed = self.armed_ms
            self.armed_ms = match.timestamp_ms if armed is None else min(armed, match.timestamp_ms)
        for number in match.matchers:
            self._hold(number, match)
            if number in self.plan.negated:
                self._remember(number, match.time_us)
        for index, numbers in enumerate(self.plan.timer_matchers):
            if not numbers.isdisjoint(match.matchers):  # B1, U1
                self.timer_starts[index] = max(self.timer_starts.get(index, BEGINNING), match.timestamp_ms)
        self._fire(None)

    def _is_repeat(self, match: Match) -> bool:
        """True for a repeat (D1, D2); otherwise adds the event to `seen`."""
        if self.last_ms is not None and match.timestamp_ms > self.last_ms + SEEN_MS:
            self.seen = b""
        new = digest(*match.identity)
        if is_seen(self.seen, new):
            return True
        replaced: list[tuple[int, Match]] = []
        for number, pool in enumerate(self.pools):
            for held in pool:
                if held.identity == match.identity:
                    if not self._is_released(number, held, self.now_ms):
                        return True
                    replaced.append((number, held))
        # Not in the loop: if the match is ignored, the held event stays, for matches with earlier stamps.
        for number, held in replaced:
            self.pools[number] = [other for other in self.pools[number] if other is not held]
        self.seen = with_digest(self.seen, new)
        return False

    def _hold(self, number: int, match: Match) -> None:
        """Hold the match for a matcher; beyond its capacity drop one event (H1 to H3, Q7)."""
        capacity = self.plan.capacities[number]
        if not capacity:  # the matcher stands only under `~`
            return
        pool = self.pools[number]
        bisect.insort(pool, match, key=by_rank)  # T3
        if len(pool) <= capacity:
            return
        for held in pool:
            if held is not match and self._is_released(number, held, self.now_ms):
                pool.remove(held)
                return
        if number in self.plan.distinct:
            same = _same_value(pool, number, self.plan.keeps_first[number])
            if same is not None:  # Q7
                del pool[same]
                return
        if self.plan.keeps_all[number]:
            self.dropped += 1  # H3
        pool.pop(-1 if self.plan.keeps_first[number] else 0)  # H2, L1, L2, L3

    def _remember(self, number: int, time_us: int) -> None:
        """Keep the time of a negated event, without times that make no difference to any window (E8)."""
        times = list(self.negated_times.get(number, ()))
        index = bisect.bisect_left(times, time_us)
        if index < len(times) and times[index] == time_us:
            return
        times.insert(index, time_us)
        windows = self.plan.negated[number]
        for middle in (index + 1, index, index - 1):
            if 0 < middle < len(times) - 1 and all(
                window.redundant(times[middle - 1], times[middle + 1]) for window in windows
            ):
                del times[middle]
        self.negated_times[number] = tuple(times[-MAX_NEGATED_TIMES:])

    # -- due times

    def view(self, before_ms: int | None = None) -> View:
        """All held events and the clock. before_ms: the clock before a due time; default: the clock."""
        clock = self.clock_ms
        before = clock if before_ms is None else before_ms
        return View(self.pools, clock, before, self.timer_starts, self.negated_times, Looks())

    def expiry_ms(self) -> int | None:
        """When the key expires (X2, X3, X5)."""
        return expiry_ms(self.plan, self.opened_ms, self.armed_ms)

    def due_times(self) -> list[int]:
        """The times after the clock at which a timer may fire or the key expires, in any order."""
        if not self.plan.has_due_times:
            return []
        expiry = self.expiry_ms() if self.plan.expires else None
        return [*self.plan.root.due_times(self.view()), *([] if expiry is None else [expiry])]

    def due_ms(self) -> int | None:
        return min(self.due_times(), default=None)

    def evaluate_at(self, due_ms: int) -> None:
        """Evaluate a due time: a firing `met` comes before an expiry (X6)."""
        self._release(due_ms - 1)  # as a tick just before the due time would have done (W2)
        before = self.clock_ms
        self.clock_ms = max(self.clock_ms, due_ms)
        self.now_ms = due_ms - 1
        self._fire(due_ms, before)
        expiry = self.expiry_ms() if self.plan.expires else None
        if expiry is not None and expiry <= due_ms:
            self.expire(expiry)
        self._release(due_ms)

    # -- firing

    def _fire(self, timer_ms: int | None, before_ms: int | None = None) -> None:
        while True:  # S1; it ends, because each firing consumes an event or disarms an `absent`
            found = self.plan.root.met(self.view(before_ms))
            if found is None:
                return
            self.firings.append(self._firing(MET, found.parts, (), timer_ms))
            self.consume(found)

    def consume(self, found: Found) -> None:
        """Drop what a firing consumes (C1, C2, Q6, I7), and start the expiry of what is left (X2)."""
        used = {match.identity for _, match in found.parts}
        latest = max((match.rank for _, match in found.parts), default=None)
        drops_earlier = {number for number, _ in found.parts if self.plan.drops_earlier[number]}
        distinct = self.plan.distinct
        of_distinct = [part for part in found.parts if part[0] in distinct] if distinct else ()
        values = {(number, match.value_for(number)) for number, match in of_distinct}
        for number, pool in enumerate(self.pools):
            self.pools[number] = [
                match
                for match in pool
                if match.identity not in used  # C1, C2
                and not (values and (number, match.value_for(number)) in values)  # Q6
                and not (
                    number in drops_earlier
                    and latest is not None
                    and (match.rank < latest or match.time_us <= found.period_end_us)  # I7
                )
            ]
        for index in found.disarmed:  # B3
            self.timer_starts.pop(index, None)
        self.opened_ms = None
        if self.plan.expires:  # X2
            left = (
                match.timestamp_ms
                for number, pool in enumerate(self.pools)
                for match in pool
                if not self._is_released(number, match, self.now_ms)
            )
            self.armed_ms = min(left, default=None)

    def expire(self, due_ms: int) -> None:
        """Fire `expired`, and drop all that is held (X1, X4)."""
        partial = self.plan.root.partial(self.view())
        missing = tuple(self.plan.labels[number] for number in sorted(partial.missing))
        self.firings.append(self._firing(EXPIRED, partial.parts, missing, due_ms))
        self.pools = [[] for _ in self.pools]  # X4
        self.timer_starts = {}
        self.opened_ms = self.armed_ms = None

    def _firing(
        self, outcome: Literal["met", "expired"], parts: Parts, missing: tuple[str, ...], timer_ms: int | None
    ) -> Firing:
        # a match in a firing names all matchers that held its event, as in the state
        holders = {match.identity: match.matchers for match in as_matches(self.pools)}
        unique = {(number, match.identity): match for number, match in parts}
        ordered = sorted(unique.items(), key=lambda item: (item[0][0], item[1].rank))  # C5
        return Firing(
            outcome,
            tuple(
                Part(self.plan.labels[number], with_matchers(match, holders.get(identity, match.matchers)))
                for (number, identity), match in ordered
            ),
            missing,
            timer_ms,
        )

    # -- release

    def _is_released(self, number: int, match: Match, time_ms: int) -> bool:
        """True if a tick at that time releases the event from this matcher."""
        windows = self.plan.held_by[number]
        return windows is not None and all(window.until_ms(match) < time_ms for window in windows)

    def _release(self, time_ms: int) -> None:
        """Remove what can no longer take part at this time (W7)."""
        for number, pool in enumerate(self.pools):
            if pool and self.plan.held_by[number] is not None:
                self.pools[number] = [
                    match for match in pool if not self._is_released(number, match, time_ms)
                ]
        for number, times in list(self.negated_times.items()):
            kept = tuple(time for time in times if self._remembered_until(number, time) >= time_ms)
            if kept:
                self.negated_times[number] = kept
            else:
                del self.negated_times[number]
        for index in self.plan.quiet_timers & self.timer_starts.keys():
            if not any(self.pools[number] for number in self.plan.timer_matchers[index]):
                del self.timer_starts[index]
        if self.seen and self.last_ms is not None and time_ms > self.last_ms + SEEN_MS:
            self.seen = b""

    def release_times(self, every: bool = False) -> list[int]:
        """The times of ticks that release something. every: include the end of `seen` even if it is empty."""
        times = [
            max(window.until_ms(match) for window in windows) + 1
            for windows, pool in zip(self.plan.held_by, self.pools, strict=True)
            if windows is not None
            for match in pool
        ]
        times += [
            self._remembered_until(n, time) + 1
            for n, negated in self.negated_times.items()
            for time in negated
        ]
        if self.last_ms is not None and (self.seen or every):
            times.append(self.last_ms + SEEN_MS + 1)
        return times

    def held_until_ttl(self) -> bool:
        """True if only the ttl ends the state: no window releases a held event, or an `absent` is armed."""
        if self.timer_starts.keys() - self.plan.quiet_timers:
            return True
        pairs = zip(self.plan.held_by, self.pools, strict=True)
        return any(pool and windows is None for windows, pool in pairs)

    def _remembered_until(self, number: int, time_us: int) -> int:
        return max(window.remembered_until_ms(time_us) for window in self.plan.negated[number])


def _same_value(pool: list[Match], number: int, keeps_first: bool) -> int | None:
    """The index of the event to drop because another has its value: the earliest, or the latest (H2)."""
    indexes = range(len(pool))
    times = Counter(match.value_for(number) for match in pool)
    for index in reversed(indexes) if keeps_first else indexes:
        if times[pool[index].value_for(number)] > 1:
            return index
    return None


def expiry_ms(plan: Plan, opened_ms: int | None, armed_ms: int | None) -> int | None:
    """When a key expires, given State.opened_ms and State.armed_ms (X2, X3, X5); None: it does not."""
    start = armed_ms if opened_ms is None else opened_ms
    if start is None:
        return None
    times = [] if plan.expires_after_ms is None else [start + plan.expires_after_ms]
    if plan.expires_at_ms is not None and (start < plan.expires_at_ms or opened_ms is not None):
        times.append(max(start, plan.expires_at_ms))
    return min(times, default=None)


def waiting_order(match: Match) -> tuple[int, str, str, str, int, int]:
    # W3; two repeats with the same stamp are in the order of the log
    return (match.timestamp_ms, *match.identity, match.topic, match.partition, match.offset)
