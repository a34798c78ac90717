"""One input being worked in: the state taken apart, changed in place, and put together again.

Not public: `step` makes a Run for one input and takes its result. Cases: docs/use/conditions.md.
"""

from __future__ import annotations

import bisect
from typing import Final

from ..errors import ConditionError
from .firing import EXPIRED, MET, Firing, Part
from .plan import Plan
from .seen import SEEN_MS, digest, is_seen, with_digest
from .state import Match, State, as_matches, of_another, with_matchers
from .view import BEGINNING, Found, Looks, Parts, View

MAX_WAITING: Final = 1000
MAX_REFUTERS: Final = 1000


class Run:
    """One input being worked in: the state taken apart, changed in place, and put together again."""

    def __init__(self, plan: Plan, state: State) -> None:
        self.plan = plan
        self.state = state
        self.pools: list[list[Match]] = [[] for _ in plan.capacities]
        for match in state.matches:
            for number in match.matchers:
                if not 0 <= number < len(self.pools):
                    raise ConditionError(of_another(number, len(self.pools)))
                self.pools[number].append(match)
        if state.refuters.keys() - plan.negated.keys():
            raise ConditionError(of_another(max(state.refuters), len(self.pools)))
        self.seen = state.seen
        self.last_ms = state.last_ms
        self.waiting = list(state.waiting)
        self.clock_ms = BEGINNING if state.clock_ms is None else state.clock_ms
        self.opened_ms = state.opened_ms
        self.armed_ms = state.armed_ms
        self.came = dict(state.came)
        self.refuters = dict(state.refuters)
        self.dropped = state.dropped
        self.firings: list[Firing] = []
        self.now_ms = BEGINNING  # the stamp, or the end of the time, that is being worked in

    def result(self) -> tuple[State, tuple[Firing, ...]]:
        return State(
            matches=as_matches(self.pools),
            seen=self.seen,
            last_ms=self.last_ms,
            waiting=tuple(self.waiting),
            clock_ms=None if self.clock_ms == BEGINNING else self.clock_ms,
            since_ms=self.state.since_ms,
            opened_ms=self.opened_ms,
            armed_ms=self.armed_ms,
            came=self.came,
            refuters=self.refuters,
            dropped=self.dropped,
        ), tuple(self.firings)

    # -- inputs

    def take(self, match: Match) -> None:
        due = self.due_ms() if self.plan.has_due_times else None
        if self.plan.ordered or (due is not None and match.timestamp_ms >= due):  # W5, W1
            bisect.insort(self.waiting, match, key=_waiting_order)
            if len(self.waiting) > MAX_WAITING:
                self._make_room()
            return
        self._enter(match)
        self._advance(None)

    def _make_room(self) -> None:
        """Let a repeat of what waits go, so that a storm of them drops nothing else; or the last (W4)."""
        earlier: set[tuple[str, str]] = set()
        repeats = []
        for place, match in enumerate(self.waiting):
            if match.identity in earlier:
                repeats.append(place)
            earlier.add(match.identity)
        if repeats:
            del self.waiting[repeats[-1]]
        else:
            self.waiting.pop()
            self.dropped += 1

    def tick(self, time_ms: int) -> None:
        self._advance(time_ms)
        self.clock_ms = max(self.clock_ms, time_ms)
        self._release(self.clock_ms)

    def _advance(self, until_ms: int | None) -> None:
        """What is due up to then happens, and waiting matches enter in between (W2, W3)."""
        while True:
            due = self.due_ms() if self.plan.has_due_times else None
            first = self.waiting[0].timestamp_ms if self.waiting else None
            ready = first is not None and (
                not self.plan.ordered or (until_ms is not None and first < until_ms)
            )
            if first is not None and ready and (due is None or first < due):
                self._enter(self.waiting.pop(0))
            elif due is not None and until_ms is not None and due <= until_ms:
                self._judge(due)
            else:
                return

    def _enter(self, match: Match) -> None:
        # What a tick before this stamp would have let go is as good as gone, whether one came or not (W7);
        # it stays for matches with earlier stamps, which other partitions may still bring.
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
                self.came[index] = max(self.came.get(index, BEGINNING), match.timestamp_ms)
        self._fire(None)

    def _is_repeat(self, match: Match) -> bool:
        """True for a repeat (D1, D2); else the event is remembered."""
        if self.last_ms is not None and match.timestamp_ms > self.last_ms + SEEN_MS:
            self.seen = b""
        new = digest(*match.identity)
        if is_seen(self.seen, new):
            return True
        for number, pool in enumerate(self.pools):
            for held in pool:
                if held.identity == match.identity:
                    if not self._is_released(number, held, self.now_ms):
                        return True
                    self.pools[number] = [other for other in pool if other is not held]
        self.seen = with_digest(self.seen, new)
        return False

    def _hold(self, number: int, match: Match) -> None:
        room = self.plan.capacities[number]
        if not room:  # it is negated only
            return
        pool = self.pools[number]
        bisect.insort(pool, match, key=_rank)  # T3
        if len(pool) <= room:
            return
        for held in pool:
            if held is not match and self._is_released(number, held, self.now_ms):
                pool.remove(held)
                return
        if self.plan.keeps_all[number]:
            self.dropped += 1  # H3
        pool.pop(-1 if self.plan.keeps_first[number] else 0)  # H2, L1, L2, L3

    def _remember(self, number: int, time_us: int) -> None:
        """Hold the time of a negated event, and no more times than windows can tell apart (E8)."""
        times = list(self.refuters.get(number, ()))
        place = bisect.bisect_left(times, time_us)
        if place < len(times) and times[place] == time_us:
            return
        times.insert(place, time_us)
        endings = self.plan.negated[number]
        for middle in (place + 1, place, place - 1):
            if 0 < middle < len(times) - 1 and all(
                ending.redundant(times[middle - 1], times[middle + 1]) for ending in endings
            ):
                del times[middle]
        self.refuters[number] = tuple(times[-MAX_REFUTERS:])

    # -- due times

    def view(self, before_ms: int | None = None) -> View:
        clock = self.clock_ms
        before = clock if before_ms is None else before_ms
        return View(self.pools, clock, before, self.came, self.refuters, Looks())

    def expiry_ms(self) -> int | None:
        """When the key expires (X2, X3, X5)."""
        return expiry_ms(self.plan, self.opened_ms, self.armed_ms)

    def due_times(self) -> list[int]:
        if not self.plan.has_due_times:
            return []
        expiry = self.expiry_ms() if self.plan.expires else None
        return [*self.plan.root.due_times(self.view()), *([] if expiry is None else [expiry])]

    def due_ms(self) -> int | None:
        return min(self.due_times(), default=None)

    def _judge(self, due_ms: int) -> None:
        """A due time has come: what it meets fires, and then what it ends (X6)."""
        self._release(due_ms - 1)  # as a tick just before it would have done (W2)
        before = self.clock_ms
        self.clock_ms = max(self.clock_ms, due_ms)
        self.now_ms = due_ms - 1
        self._fire(due_ms, before)
        expiry = self.expiry_ms() if self.plan.expires else None
        if expiry is not None and expiry <= due_ms:
            self._expire(expiry)
        self._release(due_ms)

    # -- firing

    def _fire(self, timer_ms: int | None, before_ms: int | None = None) -> None:
        while True:  # S1: each round consumes an event or disarms an `absent`
            found = self.plan.root.met(self.view(before_ms))
            if found is None:
                return
            self.firings.append(self._firing(MET, found.parts, (), timer_ms))
            self._consume(found)

    def _consume(self, found: Found) -> None:
        used = {match.identity for _, match in found.parts}
        latest = max((match.rank for _, match in found.parts), default=None)
        passed = {number for number, _ in found.parts if self.plan.drops_passed[number]}
        for number, pool in enumerate(self.pools):
            self.pools[number] = [
                match
                for match in pool
                if match.identity not in used  # C1, C2
                and not (
                    number in passed
                    and latest is not None
                    and (match.rank < latest or match.time_us <= found.period_end_us)  # I7
                )
            ]
        for index in found.disarmed:  # B3
            self.came.pop(index, None)
        self.opened_ms = None
        if self.plan.expires:  # X2
            left = (
                match.timestamp_ms
                for number, pool in enumerate(self.pools)
                for match in pool
                if not self._is_released(number, match, self.now_ms)
            )
            self.armed_ms = min(left, default=None)

    def _expire(self, due_ms: int) -> None:
        partial = self.plan.root.partial(self.view())
        missing = tuple(self.plan.labels[number] for number in sorted(partial.missing))
        self.firings.append(self._firing(EXPIRED, partial.parts, missing, due_ms))
        self.pools = [[] for _ in self.pools]  # X4
        self.came = {}
        self.opened_ms = self.armed_ms = None

    def _firing(self, outcome: str, parts: Parts, missing: tuple[str, ...], timer_ms: int | None) -> Firing:
        # the parts carry the matchers that hold their event, as the state does
        holders = {match.identity: match.matchers for match in as_matches(self.pools)}
        unique = {(number, match.identity): match for number, match in parts}
        ordered = sorted(unique.items(), key=lambda item: (item[0][0], item[1].rank))  # C5
        return Firing(
            outcome,  # type: ignore[arg-type]
            tuple(
                Part(self.plan.labels[number], with_matchers(match, holders.get(identity, match.matchers)))
                for (number, identity), match in ordered
            ),
            missing,
            timer_ms,
        )

    # -- letting go

    def _is_released(self, number: int, match: Match, time_ms: int) -> bool:
        """True if a tick at that time lets go of the event, as far as this matcher holds it."""
        holds = self.plan.held_by[number]
        return holds is not None and all(hold.until_ms(match) < time_ms for hold in holds)

    def _release(self, time_ms: int) -> None:
        """What can take part no more at this time goes (W7)."""
        for number, pool in enumerate(self.pools):
            if pool and self.plan.held_by[number] is not None:
                self.pools[number] = [
                    match for match in pool if not self._is_released(number, match, time_ms)
                ]
        for number, times in list(self.refuters.items()):
            kept = tuple(time for time in times if self._remembered_until(number, time) >= time_ms)
            if kept:
                self.refuters[number] = kept
            else:
                del self.refuters[number]
        for index in self.plan.quiet_timers & self.came.keys():
            if not any(self.pools[number] for number in self.plan.timer_matchers[index]):
                del self.came[index]
        if self.seen and self.last_ms is not None and time_ms > self.last_ms + SEEN_MS:
            self.seen = b""

    def release_times(self, every: bool = False) -> list[int]:
        """The ticks at which something goes; with `every` also when nothing but time tells."""
        times = [
            max(hold.until_ms(match) for hold in holds) + 1
            for holds, pool in zip(self.plan.held_by, self.pools, strict=True)
            if holds is not None
            for match in pool
        ]
        times += [
            self._remembered_until(n, time) + 1 for n, all_of in self.refuters.items() for time in all_of
        ]
        if self.last_ms is not None and (self.seen or every):
            times.append(self.last_ms + SEEN_MS + 1)
        return times

    def held_until_ttl(self) -> bool:
        """True if nothing but the bus's ttl ends it: an event that waits for others, a silence that is on."""
        if self.came.keys() - self.plan.quiet_timers:
            return True
        return any(pool and holds is None for holds, pool in zip(self.plan.held_by, self.pools, strict=True))

    def _remembered_until(self, number: int, time_us: int) -> int:
        return max(ending.remembered_until_ms(time_us) for ending in self.plan.negated[number])


def expiry_ms(plan: Plan, opened_ms: int | None, armed_ms: int | None) -> int | None:
    """When a key with these times of its state expires (X2, X3, X5)."""
    start = armed_ms if opened_ms is None else opened_ms
    if start is None:
        return None
    times = [] if plan.expires_after_ms is None else [start + plan.expires_after_ms]
    if plan.expires_at_ms is not None and (start < plan.expires_at_ms or opened_ms is not None):
        times.append(max(start, plan.expires_at_ms))
    return min(times, default=None)


def _rank(match: Match) -> tuple[int, str, str]:
    return match.rank


def _waiting_order(match: Match) -> tuple[int, str, str, str, int, int]:
    # W3; where a repeat is stamped alike, its place in the log decides
    return (match.timestamp_ms, *match.identity, match.topic, match.partition, match.offset)
