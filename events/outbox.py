"""A bounded queue of events and the thread that emits them, for processes that must not wait."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from .emitter import Emitter
from .errors import EmitError
from .event import Event

MAX_EVENTS: Final = 1000
_BATCH: Final = 200
_AGAIN_S: Final = 1.0
# The answer "not acknowledged" comes this much before a process has waited its time, so that its reason is
# in the one warning.
SHARE: Final = 0.8


class Outbox:
    """Events in, acknowledged events out; `put` never waits and nothing here raises.

    open_emitter: called in the thread, again after each failure, so that a connection that was mended is
    used. timeout_s: how long a flush waits; SHARE of it is given to an emit. What is not acknowledged is
    emitted again, with the same ids, until it is or the process ends; while `max_events` wait, those that
    come are dropped. Each outage is one warning in `log`, which begins with `who` and ends with what may be
    done about what is lost, `remedy`.
    """

    def __init__(
        self,
        open_emitter: Callable[[], Emitter],
        timeout_s: float,
        *,
        log: logging.Logger,
        who: str,
        remedy: str,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._open_emitter, self._timeout_s, self._max_events = open_emitter, timeout_s, max_events
        self._log, self._who, self._remedy = log, who, remedy
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._problem: str | None = None
        self._dropped = 0
        self._given_up = False
        self._pid = os.getpid()

    def put(self, event: Event) -> None:
        with self._changed:
            self._given_up = False
            if len(self._events) >= self._max_events:
                self._dropped += 1
            else:
                self._events.append(event)
                self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="interlock-outbox", daemon=True)
                self._thread.start()
                atexit.register(self.flush)

    def flush(self) -> bool:
        """Wait until all is acknowledged; False after the timeout, which is warned of once."""
        if os.getpid() != self._pid:
            return True  # at the end of a fork, which has this object, but not its thread
        deadline = time.monotonic() + self._timeout_s
        with self._changed:
            while self._events and not self._given_up:
                left = deadline - time.monotonic()
                if left <= 0:
                    self._given_up = True
                    self._tell(f"no acknowledgement within {self._timeout_s:g} s")
                    break
                self._changed.wait(left)
            return not self._events

    def _run(self) -> None:
        emitter: Emitter | None = None
        while True:
            with self._changed:
                while not self._events:
                    self._changed.wait()
                batch = list(self._events)[:_BATCH]
            problem: str | None = None
            try:
                emitter = emitter or self._open_emitter()
                emitter.emit_all(batch, timeout_s=self._timeout_s * SHARE)
                lost: set[tuple[str, str]] = set()
            except EmitError as e:
                problem, lost = str(e), set(e.undelivered)
            except Exception as e:  # noqa: BLE001  # a connection that cannot be read, in Airflow's words
                problem, lost = f"{type(e).__name__}: {e}", {event.identity for event in batch}
            with self._changed:
                done = {id(event) for event in batch if event.identity not in lost}
                self._events = deque(event for event in self._events if id(event) not in done)
                if problem is None:
                    self._works()
                else:
                    emitter = None
                    self._tell(problem)
                self._changed.notify_all()
            if problem is not None:
                time.sleep(_AGAIN_S)

    def _tell(self, problem: str) -> None:
        if self._problem is None:
            self._log.warning(
                "%s: %d events wait to be emitted, and no state depends on them. %s %s",
                self._who,
                len(self._events),
                problem if problem.endswith(".") else f"{problem}.",
                self._remedy,
            )
        self._problem = problem

    def _works(self) -> None:
        if self._problem is not None:
            dropped = f" {self._dropped} events found the queue full: {self._remedy}" if self._dropped else ""
            self._log.info("%s emits again.%s", self._who, dropped)
        self._problem, self._dropped = None, 0
