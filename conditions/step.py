"""The decision: what an input does to the state of a key, and what fires.

Pure: no clock, no I/O, equal arguments give equal results. The cases cited are those of docs/conditions.md.
"""

from __future__ import annotations

import bisect
import hashlib
from typing import Final

import msgspec

from .condition import Condition
from .errors import ConditionError
from .evaluation import BEGINNING, Found, Parts, View
from .firing import EXPIRED, MET, Firing, Part
from .plan import Plan
from .state import EMPTY, SEEN_EVENTS, SEEN_MS, VERSION, Match, State, as_matches, with_matchers

MAX_WAITING: Final = 1000
MAX_REFUTERS: Final = 1000
_DIGEST_BYTES: Final = 8
_SEEN_BYTES: Final = SEEN_EVENTS * _DIGEST_BYTES


class Tick(msgspec.Struct, frozen=True):
    """The promise that no match stamped before `time_ms` is still to come for this key (W2)."""

    time_ms: int


class Cancel(msgspec.Struct, frozen=True):
    """The subscription is gone: everything is dropped (W9)."""


def step(
    condition: Condition, state: State, event: Match | Tick | Cancel
) -> tuple[State, tuple[Firing, ...]]:
    """The state after an input, and what fired, in order.

    state: of the same condition and key; EMPTY or `opened()` at first. A match names in `matchers` all
    matchers that accepted the event with this key; one event enters once, with all of them. ConditionError
    for a number the condition does not have.
    """
    plan = condition.plan
    if isinstance(event, Match):
        numbers = event.matchers
        if not numbers or not 0 <= min(numbers) <= max(numbers) < len(plan.rooms):
            raise ConditionError(f"matchers {numbers} of a match: the condition has {len(plan.rooms)}")
        if state.since_ms is not None and event.timestamp_ms < state.since_ms:  # Y1
            return state, ()
        if plan.masks and state.dropped == 0:
            return _short_step(plan, state, event)
        run = _Run(plan, state)
        run.take(event)
        return run.result()
    if isinstance(event, Tick):
        run = _Run(plan, state)
        run.tick(event.time_ms)
        return run.result()
    return EMPTY, ()


def opened(condition: Condition, at_ms: int, since_ms: int | None = None) -> State:
    """The state with which a subscription begins whose one key is known: its timers run from `at_ms`.

    since_ms: matches stamped before it do not count (Y1); None: all do.
    """
    plan = condition.plan
    return State(
        since_ms=since_ms,
        opened_ms=at_ms if plan.expires else None,
        came=dict.fromkeys(plan.armed, at_ms),
    )


def next_wakeup(condition: Condition, state: State) -> int | None:
    """The time of the next tick that matters, ms since the epoch; None: none does.

    It is the earliest due time, or the time at which what is held, or remembered, is let go.
    """
    run = _Run(condition.plan, state)
    times = [*run.lettings()]
    due = run.due_ms()
    if due is not None:
        times.append(due)
    if run.plan.ordered and state.waiting:
        times.append(state.waiting[0].timestamp_ms + 1)
    return min(times, default=None)


def closes_at(condition: Condition, state: State, ttl_ms: int) -> int | None:
    """When the state may be forgotten, ms since the epoch (Z1); None for one that holds nothing at all.

    ttl_ms: how long the bus keeps what nothing else ends, after its last stamp or due time.
    """
    run = _Run(condition.plan, state)
    dues = [*run.all_dues()]
    known = [*dues, *([] if state.last_ms is None else [state.last_ms])]
    known += [match.timestamp_ms for match in state.waiting]
    if not known:
        return None
    latest = max(known) + ttl_ms
    if run.held_without_end():
        return latest
    ends = [*run.lettings(every=True), *(due + 1 for due in dues)]
    ends += [match.timestamp_ms + 1 for match in state.waiting]
    return min(latest, max(ends))


class _Run:
    """One input being worked in: the state taken apart, changed in place, and put together again."""

    def __init__(self, plan: Plan, state: State) -> None:
        self.plan = plan
        self.state = state
        self.pools: list[list[Match]] = [[] for _ in plan.rooms]
        for match in state.matches:
            for number in match.matchers:
                self.pools[number].append(match)
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
        due = self.due_ms() if self.plan.dues else None
        if self.plan.ordered or (due is not None and match.timestamp_ms >= due):  # W5, W1
            bisect.insort(self.waiting, match, key=_waiting_order)
            if len(self.waiting) > MAX_WAITING:  # W4
                self.waiting.pop()
                self.dropped += 1
            return
        self._enter(match)
        self._advance(None)

    def tick(self, time_ms: int) -> None:
        self._advance(time_ms)
        self.clock_ms = max(self.clock_ms, time_ms)
        self._let_go()

    def _advance(self, until_ms: int | None) -> None:
        """What is due up to then happens, and waiting matches enter in between (W2, W3)."""
        while True:
            due = self.due_ms() if self.plan.dues else None
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
        for index, numbers in enumerate(self.plan.clocked):
            if not numbers.isdisjoint(match.matchers):  # B1, U1
                self.came[index] = max(self.came.get(index, BEGINNING), match.timestamp_ms)
        self._fire(None)

    def _is_repeat(self, match: Match) -> bool:
        """True for a repeat (D1, D2); else the event is remembered."""
        if self.last_ms is not None and match.timestamp_ms > self.last_ms + SEEN_MS:
            self.seen = b""
        digest = _digest(match.identity)
        if _is_seen(self.seen, digest):
            return True
        if any(match.identity == held.identity for pool in self.pools for held in pool):
            return True
        self.seen = (self.seen + digest)[-_SEEN_BYTES:]
        return False

    def _hold(self, number: int, match: Match) -> None:
        room = self.plan.rooms[number]
        if not room:  # it is negated only
            return
        pool = self.pools[number]
        bisect.insort(pool, match, key=_rank)  # T3
        if len(pool) <= room:
            return
        if self.plan.queued[number]:
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
        return View(self.pools, clock, clock if before_ms is None else before_ms, self.came, self.refuters)

    def expiry_ms(self) -> int | None:
        """When the key expires (X2, X3, X5)."""
        plan = self.plan
        start = self.armed_ms if self.opened_ms is None else self.opened_ms
        if start is None:
            return None
        times = [] if plan.expires_after_ms is None else [start + plan.expires_after_ms]
        if plan.expires_at_ms is not None and start < plan.expires_at_ms:
            times.append(plan.expires_at_ms)
        return min(times, default=None)

    def all_dues(self) -> list[int]:
        if not self.plan.dues:
            return []
        expiry = self.expiry_ms() if self.plan.expires else None
        return [*self.plan.root.dues(self.view()), *([] if expiry is None else [expiry])]

    def due_ms(self) -> int | None:
        return min(self.all_dues(), default=None)

    def _judge(self, due_ms: int) -> None:
        """A due time has come: what it meets fires, and then what it ends (X6)."""
        before = self.clock_ms
        self.clock_ms = max(self.clock_ms, due_ms)
        self._fire(due_ms, before)
        expiry = self.expiry_ms() if self.plan.expires else None
        if expiry is not None and expiry <= due_ms:
            self._expire(expiry)

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
        passed = {number for number, _ in found.parts if self.plan.passes[number]}
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
            left = (match.timestamp_ms for pool in self.pools for match in pool)
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

    def _let_go(self) -> None:
        """What can take part no more goes (W7)."""
        for number, pool in enumerate(self.pools):
            holds = self.plan.holds[number]
            if pool and holds is not None:
                self.pools[number] = [
                    match for match in pool if any(hold.until_ms(match) >= self.clock_ms for hold in holds)
                ]
        for number, times in list(self.refuters.items()):
            kept = tuple(time for time in times if self._remembered_until(number, time) >= self.clock_ms)
            if kept:
                self.refuters[number] = kept
            else:
                del self.refuters[number]
        for index in self.plan.settling & self.came.keys():
            if not any(self.pools[number] for number in self.plan.clocked[index]):
                del self.came[index]
        if self.seen and self.last_ms is not None and self.clock_ms > self.last_ms + SEEN_MS:
            self.seen = b""

    def lettings(self, every: bool = False) -> list[int]:
        """The ticks at which something goes; with `every` also when nothing but time tells."""
        times = [
            max(hold.until_ms(match) for hold in holds) + 1
            for holds, pool in zip(self.plan.holds, self.pools, strict=True)
            if holds is not None
            for match in pool
        ]
        times += [
            self._remembered_until(n, time) + 1 for n, all_of in self.refuters.items() for time in all_of
        ]
        if self.last_ms is not None and (self.seen or every):
            times.append(self.last_ms + SEEN_MS + 1)
        return times

    def held_without_end(self) -> bool:
        return any(pool and holds is None for holds, pool in zip(self.plan.holds, self.pools, strict=True))

    def _remembered_until(self, number: int, time_us: int) -> int:
        return max(ending.remembered_until_ms(time_us) for ending in self.plan.negated[number])


def _short_step(plan: Plan, state: State, match: Match) -> tuple[State, tuple[Firing, ...]]:
    """`step` for conditions of `&` and `|` alone, where each matcher holds one event (Plan.masks)."""
    identity = match.identity
    last = state.last_ms
    stamp = match.timestamp_ms
    seen = b"" if last is not None and stamp > last + SEEN_MS else state.seen
    digest = _digest(identity)
    if digest in seen and _is_seen(seen, digest):  # D1
        return (state if seen is state.seen else msgspec.structs.replace(state, seen=seen)), ()
    matches = state.matches
    for other in matches:
        if other.identity == identity:  # D2
            return (state if seen is state.seen else msgspec.structs.replace(state, seen=seen)), ()
    seen = (seen + digest)[-_SEEN_BYTES:]
    last = stamp if last is None or stamp > last else last
    holders: dict[int, Match] = {}
    bits = 0
    for other in matches:
        for number in other.matchers:
            holders[number] = other
            bits |= 1 << number
    for number in match.matchers:
        holder = holders.get(number)
        if holder is None or match.rank > holder.rank:  # L1, L2, L3
            holders[number] = match
            bits |= 1 << number
    firings: tuple[Firing, ...] = ()
    for mask in plan.masks:
        if bits & mask == mask:  # A1, O2
            used = {holders[number].identity for number in holders if mask >> number & 1}
            carried: dict[tuple[str, str], tuple[int, ...]] = {}
            for number in sorted(holders):
                one = holders[number].identity
                carried[one] = (*carried.get(one, ()), number)
            parts = tuple(
                Part(plan.labels[number], with_matchers(holders[number], carried[holders[number].identity]))
                for number in sorted(holders)
                if mask >> number & 1
            )
            firings = (Firing(MET, parts),)
            # C1, C2, C3; what is left met nothing before and meets nothing now (S1)
            holders = {number: other for number, other in holders.items() if other.identity not in used}
            break
    return (
        State(
            VERSION,
            as_matches({number: (other,) for number, other in holders.items()}),
            seen,
            last,
            (),
            state.clock_ms,
            state.since_ms,
        ),
        firings,
    )


def _rank(match: Match) -> tuple[int, str, str]:
    return match.rank


def _waiting_order(match: Match) -> tuple[int, str, str, str, int, int]:
    # W3; where a repeat is stamped alike, its place in the log decides
    return (match.timestamp_ms, *match.identity, match.topic, match.partition, match.offset)


def _digest(identity: tuple[str, str]) -> bytes:
    source, id_ = identity
    framed = f"{len(source)}:{source}{id_}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(framed, digest_size=_DIGEST_BYTES).digest()


def _is_seen(seen: bytes, digest: bytes) -> bool:
    start = seen.find(digest)
    while start != -1 and start % _DIGEST_BYTES:
        start = seen.find(digest, start + 1)
    return start != -1
