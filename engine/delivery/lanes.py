"""The lanes of one sink: which firing is delivered next, and what its answer changes. A state machine.

A lane holds the open firings that are delivered one after the other: those of a key, of a partition, or one
alone. Its first firing is in one of these states; the others wait behind it.

```
            start                DELIVERED, or given up
   READY ----------> IN_FLIGHT -------------------------> ACKNOWLEDGING ---committed---> the next one: READY
     ^                 |
     |   due           | RETRY
     +------ PARKED <--+
     +-----------------+ UNREACHABLE, DENIED: the sink is paused, the lane is the last in its queue
```

A PARKED or ACKNOWLEDGING lane takes no slot. After a change of the order, a firing that is acknowledged may
be behind others of its new lane: it keeps its place, and is not sent again. Times are those of a monotonic
clock, in seconds.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count
from typing import NamedTuple

from .answers import Answer, Verdict
from .firings import OpenFiring, Order
from .pace import Pace
from .retry import Retry


class LaneState(Enum):
    """The state of a lane's first firing. EMPTY: it has none, but an earlier one is in flight."""

    EMPTY = auto()
    READY = auto()
    IN_FLIGHT = auto()
    PARKED = auto()
    ACKNOWLEDGING = auto()


@dataclass(eq=False, slots=True)
class Lane:
    """The firings of a lane. in_flight: the firing that is being delivered, even if it was removed since."""

    name: str
    firings: deque[OpenFiring] = field(default_factory=deque)
    state: LaneState = LaneState.EMPTY
    in_flight: OpenFiring | None = None
    turn: int = 0  # the number of its valid entry among the ready or the parked; its other entries are void


class Finished(NamedTuple):
    """A firing whose delivery is over, to be acknowledged. reason: why it was given up; "" if delivered."""

    firing: OpenFiring
    reason: str = ""


class SinkLanes:
    """The lanes of one sink. chance: random numbers in [0, 1).

    `pace`: whether the sink is paused, and how many deliveries it gets at a time. While it is paused, each
    try is of another lane. A firing that is DENIED is refused for good if the sink accepted another one that
    was sent since it was last denied: then the cause is the firing.
    """

    def __init__(self, retry: Retry, order: Order, max_in_flight: int, chance: Callable[[], float]) -> None:
        self.retry, self.order = retry, order
        self._chance = chance
        self.pace = Pace(retry, max_in_flight, chance)
        self.lanes: dict[str, Lane] = {}
        self._ready: deque[tuple[int, Lane]] = deque()
        self._parked: list[tuple[float, int, Lane]] = []
        self._turns = count(1)
        self.next_order: Order | None = None
        self.in_flight = 0
        self.over: set[OpenFiring] = set()  # they need only their acknowledgement
        self._started: dict[bytes, float] = {}

    # -- what the sink has

    @property
    def wanted_order(self) -> Order:
        """The order of the newest settings; `order` becomes it when nothing is in flight any more."""
        return self.next_order or self.order

    @property
    def firing_count(self) -> int:
        """How many firings it has."""
        return sum(len(lane.firings) for lane in self.lanes.values())

    @property
    def oldest_ms(self) -> int | None:
        """When the first of its firings was written; None without one."""
        firsts = (lane.firings[0].record.timestamp_ms for lane in self.lanes.values() if lane.firings)
        return min(firsts, default=None)

    def add(self, firing: OpenFiring) -> None:
        """Add a firing behind those of its lane."""
        firing.uncounted = self.pace.failures
        name = firing.lane(self.order)
        lane = self.lanes.get(name)
        if lane is None:
            lane = self.lanes[name] = Lane(name)
        lane.firings.append(firing)
        if lane.state is LaneState.EMPTY:
            self._next(lane)

    def add_over(self, firing: OpenFiring) -> None:
        """Add a firing that needs only its acknowledgement: it is not sent. The next ones wait for it."""
        self.over.add(firing)
        self.add(firing)

    def remove(self, firing: OpenFiring) -> None:
        """Forget a firing: somebody else acknowledged it, or its partition has another owner."""
        self.over.discard(firing)
        lane = self.lanes.get(firing.lane(self.order))
        if lane is None or firing not in lane.firings:
            return
        was_first = lane.firings[0] is firing
        lane.firings.remove(firing)
        if was_first and lane.state is not LaneState.EMPTY:
            self._next(lane)

    def change(self, retry: Retry, order: Order, max_in_flight: int) -> None:
        """Use these settings from now on; another order when nothing is in flight."""
        self.retry = retry
        self.pace.change(retry, max_in_flight)
        self.next_order = None if order == self.order else order
        self.reorder()

    # -- deliveries

    def wake(self, now: float) -> None:
        """Make lanes ready whose retry is due."""
        while self._parked and self._parked[0][0] <= now:
            _, turn, lane = heapq.heappop(self._parked)
            if lane.state is LaneState.PARKED and lane.turn == turn:
                self.make_ready(lane)

    def next_due(self, now: float) -> float | None:
        """The earliest time at which `start` may return a firing; None if it needs an answer first."""
        if self.next_order is not None:
            return None
        if not self._has_ready(now):
            return self._parked[0][0] if self._parked else None
        return self.pace.next_due(self.in_flight, now)

    def may_start(self, now: float) -> bool:
        """Whether `start` would return a firing."""
        if self.next_order is not None or not self._has_ready(now):
            return False
        return self.pace.allows(self.in_flight, now)

    def start(self, now: float) -> OpenFiring | None:
        """The next firing to deliver, which is in flight from now on; None if there is none, or no room."""
        if not self.may_start(now):
            return None
        _, lane = self._ready.popleft()
        firing = lane.firings[0]
        lane.state, lane.in_flight = LaneState.IN_FLIGHT, firing
        self.in_flight += 1
        self._started[firing.key] = now
        return firing

    def expected_by(self, sent: OpenFiring) -> float:
        """Until when an answer to this delivery, which is in flight, is likely."""
        return self._started[sent.key] + self.pace.answers_within_s

    def answer(self, sent: OpenFiring, answer: Answer, now: float, now_ms: int) -> list[Finished]:
        """A delivery has ended. Returns the firings whose deliveries are over now.

        Pass each of them to `acknowledged` when its acknowledgement is committed. now_ms: the brokers' time,
        for the age of firings.
        """
        lane = self.lanes[sent.lane(self.order)]
        started = self._started.pop(sent.key)
        lane.in_flight = None
        self.in_flight -= 1
        over: list[Finished] = []
        # None: somebody else acknowledged what was sent. It may be behind others if the lane was read again
        # for another order, which has lanes of its own.
        firing = next((each for each in lane.firings if each.key == sent.key), None)
        if firing is not None and firing is not lane.firings[0]:
            if answer.verdict is Verdict.DELIVERED:
                self.over.add(firing)
            firing = None
        verdict = answer.verdict
        if verdict is Verdict.DENIED and firing is not None and self._denies_only(firing, now):
            verdict = Verdict.REFUSED
        counted = self.pace.note(verdict, answer, started, now)
        if answer.is_congestion and not (firing is not None and self._congests_only(firing, now)):
            self.pace.note_congestion(started, now)
        if firing is None:
            self._next(lane)
        elif verdict is Verdict.DELIVERED:
            over = self._finish(lane)
        elif firing in self.over:  # given up during this delivery, while the sink was removed
            self._next(lane)
        else:
            firing.tries += 1
            firing.failure, firing.answer = str(answer), answer
            firing.uncounted += verdict in (Verdict.DENIED, Verdict.UNREACHABLE)  # `tries` has counted it
            if verdict is Verdict.REFUSED:
                over = self._finish(lane, f"the sink refused it: {answer}")
            elif self._is_exhausted(firing, now_ms):
                over = self._finish(lane, self._given_up(firing))
            elif verdict is Verdict.RETRY:
                self.park(lane, now + self.retry.delay(firing.tries, self._chance(), answer.retry_after_s))
            else:
                self.make_ready(lane)
        if counted:
            over += self._give_up_waiting(now_ms)
        self.reorder()
        return over

    def acknowledged(self, firing: OpenFiring, now_ms: int) -> list[Finished]:
        """The firing is acknowledged: the next one of its lane may be delivered, or is given up as well."""
        self.remove(firing)
        lane = self.lanes.get(firing.lane(self.order))
        if lane is None or not self.pace.is_paused or not self._waits_too_long(lane, now_ms):
            return []
        return self._finish(lane, self._given_up(lane.firings[0]))

    # -- giving up

    def _denies_only(self, firing: OpenFiring, now: float) -> bool:
        """Whether the sink accepted a firing that was sent since it last denied this one.

        A firing that was sent before proves nothing: the sink's password may have changed in between.
        """
        before, firing.denied_at = firing.denied_at, now
        return before is not None and self.pace.accepted_start > before

    def _congests_only(self, firing: OpenFiring, now: float) -> bool:
        """Whether the sink accepted a firing that was sent since this one last met a sign of congestion.

        As with `_denies_only`, the cause is the firing then, such as a key that the sink limits or hangs on.
        """
        before, firing.congested_at = firing.congested_at, now
        return before is not None and self.pace.accepted_start > before

    def _is_exhausted(self, firing: OpenFiring, now_ms: int) -> bool:
        seen = firing.tries + self.pace.failures - firing.uncounted
        return self.retry.is_exhausted(firing.tries, seen, (now_ms - firing.record.timestamp_ms) / 1000)

    def _waits_too_long(self, lane: Lane, now_ms: int) -> bool:
        waits = lane.state in (LaneState.READY, LaneState.PARKED)
        return waits and self._is_exhausted(lane.firings[0], now_ms)

    def _given_up(self, firing: OpenFiring) -> str:
        last = firing.failure or self.pace.paused_by
        return f"given up after {firing.tries} failed deliveries; the last failure: {last}"

    def _give_up_waiting(self, now_ms: int) -> list[Finished]:
        """Give up firings that have waited too long: failures of a paused sink count for all that wait."""
        over: list[Finished] = []
        for lane in [*self.lanes.values()]:
            if self._waits_too_long(lane, now_ms):
                over += self._finish(lane, self._given_up(lane.firings[0]))
        return over

    # -- the states of a lane

    def _has_ready(self, now: float) -> bool:
        self.wake(now)
        while self._ready and not self._is_valid(*self._ready[0]):
            self._ready.popleft()
        return bool(self._ready)

    def _is_valid(self, turn: int, lane: Lane) -> bool:
        return lane.state is LaneState.READY and lane.turn == turn

    def make_ready(self, lane: Lane) -> None:
        lane.state, lane.turn = LaneState.READY, next(self._turns)
        self._ready.append((lane.turn, lane))

    def park(self, lane: Lane, due: float) -> None:
        lane.state, lane.turn = LaneState.PARKED, next(self._turns)
        heapq.heappush(self._parked, (due, lane.turn, lane))

    def _finish(self, lane: Lane, reason: str = "") -> list[Finished]:
        lane.state = LaneState.ACKNOWLEDGING
        self.over.add(lane.firings[0])
        return [Finished(lane.firings[0], reason)]

    def _next(self, lane: Lane) -> None:
        """Go on with a lane whose first firing is gone, or whose delivery has ended; remove an empty lane."""
        lane.state = LaneState.EMPTY
        if lane.in_flight is not None:
            return
        if not lane.firings:
            del self.lanes[lane.name]
        elif lane.firings[0] in self.over:
            lane.state = LaneState.ACKNOWLEDGING
        else:
            self.make_ready(lane)

    def reorder(self) -> None:
        """Make the lanes of another order, if one was asked for and nothing is in flight.

        It does not wait for acknowledgements: brokers may refuse a dead letter for days.
        """
        if self.next_order is None or self.in_flight:
            return
        firings = [firing for lane in self.lanes.values() for firing in lane.firings]
        self.order, self.next_order = self.next_order, None
        self.lanes, self._ready, self._parked = {}, deque(), []
        for firing in sorted(firings, key=lambda firing: firing.place):
            uncounted = firing.uncounted
            self.add(firing)
            firing.uncounted = uncounted
