"""A bounded queue of events and the thread that emits them, for processes that must not wait."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
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
    done about what is lost, `remedy`. An event that is too large for the topic is dropped, with a warning.
    at_exit: flush at the end of the process.
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
        at_exit: bool = True,
    ) -> None:
        self._open_emitter, self._timeout_s, self._max_events = open_emitter, timeout_s, max_events
        self._log, self._who, self._remedy = log, who, remedy
        self._events: deque[Event] = deque()
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        self._problem: str | None = None
        self._dropped = 0
        self._too_large: dict[tuple[str, str], str] = {}  # of those that `deliver` waits for
        self._given_up = False
        self._at_exit = at_exit
        self.acknowledged = 0
        self._pid = os.getpid()

    def put(self, event: Event, *, always: bool = False) -> None:
        """always: also where the queue is full."""
        with self._changed:
            self._given_up = False
            if len(self._events) >= self._max_events and not always:
                self._drop()
            else:
                self._events.append(event)
                self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="interlock-outbox", daemon=True)
                self._thread.start()
                if self._at_exit:
                    atexit.register(self.flush)

    def deliver(self, events: Sequence[Event], timeout_s: float) -> dict[tuple[str, str], str]:
        """Put events and wait for their acknowledgements; {identity: why} of those without one in the time.

        Those stay in the queue, but for what is too large.
        """
        deadline = time.monotonic() + timeout_s
        wanted = {event.identity for event in events}
        with self._changed:
            self._too_large |= dict.fromkeys(wanted, "")
            for event in events:
                self.put(event, always=True)
            while (waiting := wanted & {event.identity for event in self._events}) and (
                (left := deadline - time.monotonic()) > 0
            ):
                self._changed.wait(left)
            why = self._problem or f"no acknowledgement within {timeout_s:.3g} s"
            found = {each: self._too_large.pop(each) for each in wanted}
            return {each: text for each, text in found.items() if text} | dict.fromkeys(waiting, why)

    @property
    def unacknowledged(self) -> int:
        """How many events wait, or were dropped since the last acknowledgement."""
        with self._changed:
            return len(self._events) + self._dropped

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until all is acknowledged; False after the timeout, which is warned of once.

        timeout_s: where it differs from that of the outbox.
        """
        if os.getpid() != self._pid:
            return True  # at the end of a fork, which has this object, but not its thread
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while self._events and not self._given_up:
                left = deadline - time.monotonic()
                if left <= 0:
                    self._given_up = True
                    self._tell(f"no acknowledgement within {timeout_s:.3g} s")
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
            lost: set[tuple[str, str]] = set()
            too_large: set[tuple[str, str]] = set()
            try:
                emitter = emitter or self._open_emitter()
                emitter.emit_all(batch, timeout_s=self._timeout_s * SHARE)
            except EmitError as e:
                problem, too_large = str(e), set(e.too_large)
                lost = set(e.undelivered) - too_large
            except Exception as e:  # noqa: BLE001  # a connection that cannot be read, in Airflow's words
                problem, lost = f"{type(e).__name__}: {e}", {event.identity for event in batch}
            with self._changed:
                done = {id(event) for event in batch if event.identity not in lost}
                self.acknowledged += len(done) - len(too_large)
                self._events = deque(event for event in self._events if id(event) not in done)
                if problem is not None and too_large:
                    self._leave_out(too_large, problem)
                if lost:
                    emitter = None
                    self._tell(str(problem))
                else:
                    self._works()
                self._changed.notify_all()
            if lost:
                time.sleep(_AGAIN_S)

    def _leave_out(self, too_large: set[tuple[str, str]], problem: str) -> None:
        """Tell of what no attempt can deliver."""
        self._too_large |= dict.fromkeys(too_large & self._too_large.keys(), problem)
        self._log.warning(
            "%s: %s too large for the topic, and lost. %s %s",
            self._who,
            _counted(len(too_large), "is", "are"),
            problem,
            self._remedy,
        )

    def _drop(self) -> None:
        if not self._dropped:
            self._log.warning(
                "%s: %d events wait already; those that come now are lost. %s",
                self._who,
                self._max_events,
                self._remedy,
            )
        self._dropped += 1

    def _tell(self, problem: str) -> None:
        if self._problem is None:
            self._log.warning(
                "%s: %s to be emitted; no task and no job waits for that. %s %s",
                self._who,
                _counted(len(self._events), "waits", "wait"),
                problem if problem.endswith(".") else f"{problem}.",
                self._remedy,
            )
        self._problem = problem

    def _works(self) -> None:
        if self._problem is not None or self._dropped:
            dropped = f" {self._dropped} events found the queue full: {self._remedy}" if self._dropped else ""
            self._log.info("%s emits again.%s", self._who, dropped)
        self._problem, self._dropped = None, 0


def _counted(count: int, one: str, many: str) -> str:
    return f"1 event {one}" if count == 1 else f"{count} events {many}"
