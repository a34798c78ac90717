"""How many deliveries a sink gets at a time, as its answers say. Times are those of a monotonic clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .answers import Answer, Verdict
from .retry import Retry

LEAST_LIMIT: Final = 1.0
USUAL_S: Final = 2.0  # within which most sinks answer


class Pace:
    """The pause of a sink, and how many of its deliveries may be in flight. chance: random numbers in [0, 1).

    The sink is **paused** after an answer that says nothing about the firing: UNREACHABLE, or DENIED. Then
    one delivery at a time is tried, with the delays of its retry policy, until one is accepted or fails for a
    reason of its own.

    `limit`: how many deliveries may be in flight. Signs of congestion halve it, and each delivered firing
    raises it again, up to `max_in_flight`.

    failures: how often the sink itself failed. accepted_start: the latest start of a delivery that the sink
    accepted. took_s: how long the sink took to accept the last one.
    """

    def __init__(self, retry: Retry, max_in_flight: int, chance: Callable[[], float]) -> None:
        self._retry, self._max_in_flight, self._chance = retry, max_in_flight, chance
        self.limit = float(max_in_flight)
        self._halved_at = -1.0
        self.paused_until: float | None = None
        self.paused_by = ""
        self._failed_in_a_row = 0
        self.failures = 0
        self.accepted_start = float("-inf")
        self.took_s = 0.0

    @property
    def is_paused(self) -> bool:
        return self.paused_until is not None

    def change(self, retry: Retry, max_in_flight: int) -> None:
        """Use these settings from now on."""
        if max_in_flight != self._max_in_flight:
            self._max_in_flight, self.limit = max_in_flight, float(max_in_flight)
        self._retry = retry

    def allows(self, in_flight: int, now: float) -> bool:
        """Whether one more delivery may start beside these."""
        if self.paused_until is not None:
            return now >= self.paused_until and in_flight == 0
        return in_flight < int(max(self.limit, LEAST_LIMIT))

    def next_due(self, in_flight: int, now: float) -> float | None:
        """The earliest time at which one more delivery may start; None if it needs an answer first."""
        if self.paused_until is not None:
            return None if in_flight else max(now, self.paused_until)
        return now if self.allows(in_flight, now) else None

    @property
    def answers_within_s(self) -> float:
        """How old a delivery may be for its answer to be likely; the sink of an older one may hang."""
        return max(USUAL_S, 2 * self.took_s)

    def note(self, verdict: Verdict, answer: Answer, started: float, now: float) -> bool:
        """Note what an answer says about the sink. Returns whether it counts as a failure of the sink.

        A sign of congestion is for `note_congestion`.
        """
        if verdict in (Verdict.UNREACHABLE, Verdict.DENIED):
            # Deliveries in flight when the pause began fail for the same reason: they count once.
            if self.paused_until is not None and started < self.paused_until:
                return False
            self.failures += 1
            self._failed_in_a_row += 1
            delay = self._retry.delay(self._failed_in_a_row, self._chance(), answer.retry_after_s)
            self.paused_until, self.paused_by = now + delay, str(answer)
            return True
        if self.paused_until is not None and started >= self.paused_until:
            self.paused_until, self.paused_by, self._failed_in_a_row = None, "", 0
        if verdict is Verdict.DELIVERED:
            self.accepted_start = max(self.accepted_start, started)
            self.took_s = now - started
            self.limit = min(float(self._max_in_flight), self.limit + 1 / max(self.limit, LEAST_LIMIT))
        return False

    def note_congestion(self, started: float, now: float) -> None:
        """Halve the limit, once for all deliveries in flight together."""
        if started >= self._halved_at:
            self.limit, self._halved_at = max(LEAST_LIMIT, self.limit / 2), now
