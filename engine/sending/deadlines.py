"""The deadlines of a sink's requests."""

from __future__ import annotations

import asyncio


class Deadlines:
    """Timeouts that all last `seconds`, for the tasks of the running loop. Close it.

    They share one timer of the loop. With a timer for each, as `asyncio.timeout` has it, starting and
    cancelling timers is a sixteenth of what a request costs; hardly one of them ever ends a request.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._loop = seconds, asyncio.get_running_loop()
        self._ends: dict[asyncio.Timeout, float] = {}  # in their order, since all last equally long
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> asyncio.Timeout:
        """A timeout, which begins now. Enter it at once, and give it to `end` when it is left."""
        timeout = asyncio.timeout(None)
        end = self._ends[timeout] = self._loop.time() + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_at(end, self._expire)
        return timeout

    def end(self, timeout: asyncio.Timeout) -> None:
        """It was left, in time or not."""
        self._ends.pop(timeout, None)

    def close(self) -> None:
        """Ends no timeout any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        now, self._timer = self._loop.time(), None
        for timeout, end in [*self._ends.items()]:
            if end > now:
                self._timer = self._loop.call_at(end, self._expire)
                return
            del self._ends[timeout]
            timeout.reschedule(now)
