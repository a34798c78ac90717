"""The brokers' clock, derived from the timestamps of this engine's own records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

FRESH_S: Final = 30.0


class BrokerClock:
    """The brokers' time. Decisions that others see use it, never the machine's own clock.

    Between observations it advances with the monotonic clock. From the first observation on it never runs
    backwards.
    """

    def __init__(self, wall: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._seen_ms: int | None = None
        self._seen_at = 0.0
        self._last_ms = 0

    def observe(self, append_ms: int) -> None:
        """Set the clock: a broker just stamped a record of this engine with this time."""
        self._seen_ms, self._seen_at = append_ms, self._monotonic()

    @property
    def known(self) -> bool:
        """Whether a broker's time was observed."""
        return self._seen_ms is not None

    @property
    def fresh(self) -> bool:
        """Whether the last observation is recent enough for decisions about timers."""
        return self._seen_ms is not None and self._monotonic() - self._seen_at <= FRESH_S

    def now_ms(self) -> int:
        """Milliseconds since the epoch; the machine's own time before the first observation."""
        if self._seen_ms is None:
            return int(self._wall() * 1000)
        now = self._seen_ms + int((self._monotonic() - self._seen_at) * 1000)
        self._last_ms = max(self._last_ms, now)
        return self._last_ms
