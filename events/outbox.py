"""A bounded queue of events and a thread that emits them, for processes that must not block."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

from .emitter import Emitter
from .errors import EmitError
from .event import Event

MAX_EVENTS: Final = 1000
_BATCH: Final = 200
RETRY_S: Final = 1.0
Outcome: TypeAlias = Literal["emitted", "failed", "lost"]
# An emit gets this share of a flush's timeout: it fails first, and its reason is in the flush's warning.
SHARE: Final = 0.8


class Outbox:
    """Emits queued events in a thread. `put` never blocks; no method raises.

    open_emitter: called in the thread, and again after each failure, so that a corrected connection is used.
    timeout_s: how long a flush waits; an emit gets SHARE of it.
    log, who, remedy: each outage is one warning in `log`; it begins with `who` and ends with `remedy`, what
        to do about lost events.
    max_events: while so many events wait, new ones are dropped.
    at_exit: flush at the end of the process.
    count: called with how many events were emitted or are lost, and with each emit that failed; must not
        raise. Lost are events that were dropped, are too large, or still wait when a flush gives up.

    Events without an acknowledgement are emitted again, with the same ids, until the process ends. An event
    that is too large for the topic is dropped with a warning.
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
        count: Callable[[Outcome, int], None] = lambda _outcome, _number: None,
    ) -> None:
        self._open_emitter, self._timeout_s, self._max_events = open_emitter, timeout_s, max_events
        self._log, self._who, self._remedy = log, who, remedy
        self._events: deque[Event] = deque()
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        self._problem: str | None = None
        self._dropped = 0
        # For each waiting call of `deliver`: {identity: why the event is too large, "" if it is not}.
        self._delivering: list[dict[tuple[str, str], str]] = []
        self._flush_timed_out = False
        self._at_exit, self._count = at_exit, count
        self.acknowledged = 0
        self._pid = os.getpid()

    def start(self) -> None:
        """Starts the thread, which otherwise the first `put` does.

        Python 3.12.0 to 3.12.2 cannot start a thread while the process exits.
        """
        with self._changed:
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, name="interlock-outbox", daemon=True)
            try:
                thread.start()
            except RuntimeError as e:  # the next `put` tries again
                if self._events:
                    self._warn(str(e))
                return
            self._thread = thread
            if self._at_exit:
                atexit.register(self.flush)

    def put(self, event: Event, *, always: bool = False) -> None:
        """Queues an event. always: even if the queue is full."""
        with self._changed:
            self._flush_timed_out = False
            if len(self._events) >= self._max_events and not always:
                self._drop()
            else:
                self._events.append(event)
                self._changed.notify_all()
            self.start()

    def deliver(self, events: Sequence[Event], timeout_s: float) -> dict[tuple[str, str], str]:
        """Queues events and waits for their acknowledgements; returns {identity: reason} of the others.

        Events without an acknowledgement stay in the queue unless they are too large.
        """
        deadline = time.monotonic() + timeout_s
        too_large = dict.fromkeys((event.identity for event in events), "")
        with self._changed:
            self._delivering.append(too_large)
            for event in events:
                self.put(event, always=True)
            while (waiting := too_large.keys() & {event.identity for event in self._events}) and (
                self._thread is not None and (left := deadline - time.monotonic()) > 0
            ):
                self._changed.wait(left)
            self._delivering = [each for each in self._delivering if each is not too_large]
            reason = self._problem or f"no acknowledgement within {timeout_s:.3g} s"
            return {each: text for each, text in too_large.items() if text} | dict.fromkeys(waiting, reason)

    @property
    def unacknowledged(self) -> int:
        """Number of events that wait or were dropped since the last acknowledgement."""
        with self._changed:
            return len(self._events) + self._dropped

    def flush(self, timeout_s: float | None = None) -> bool:
        """Waits until all events are acknowledged; returns False after the timeout, and warns once.

        timeout_s: default: that of the outbox.
        """
        if os.getpid() != self._pid:
            return True  # a forked process has this object but not its thread
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while self._events and self._thread is not None and not self._flush_timed_out:
                left = deadline - time.monotonic()
                if left <= 0:
                    self._flush_timed_out = True
                    self._count("lost", len(self._events))
                    self._warn(f"no acknowledgement within {timeout_s:.3g} s")
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
                lost = set(e.undelivered or (event.identity for event in batch)) - too_large
            except Exception as e:  # noqa: BLE001  # Airflow's errors when a connection cannot be read
                problem, lost = f"{type(e).__name__}: {e}", {event.identity for event in batch}
            with self._changed:
                done = {id(event) for event in batch if event.identity not in lost}
                # Counts events, not identities: `too_large` has one entry for two events with one identity.
                acknowledged = sum(event.identity not in lost | too_large for event in batch)
                self.acknowledged += acknowledged
                self._count("emitted", acknowledged)
                self._events = deque(event for event in self._events if id(event) not in done)
                if problem is not None and too_large:
                    self._warn_too_large(too_large, problem)
                if lost:
                    emitter = None
                    self._count("failed", 1)
                    self._warn(str(problem))
                else:
                    self._recovered()
                self._changed.notify_all()
            if lost:
                time.sleep(RETRY_S)

    def _warn_too_large(self, too_large: set[tuple[str, str]], problem: str) -> None:
        self._count("lost", len(too_large))
        for delivering in self._delivering:
            delivering.update(dict.fromkeys(too_large & delivering.keys(), problem))
        self._log.warning(
            "%s: %s too large for the topic and lost. %s %s",
            self._who,
            _counted(len(too_large), "is", "are"),
            problem,
            self._remedy,
        )

    def _drop(self) -> None:
        if not self._dropped:
            self._log.warning(
                "%s: the queue is full (%d events); new events are lost. %s",
                self._who,
                self._max_events,
                self._remedy,
            )
        self._dropped += 1
        self._count("lost", 1)

    def _warn(self, problem: str) -> None:
        if self._problem is None:
            self._log.warning(
                "%s: %s to be emitted; tasks and jobs are not delayed. %s %s",
                self._who,
                _counted(len(self._events), "waits", "wait"),
                problem if problem.endswith(".") else f"{problem}.",
                self._remedy,
            )
        self._problem = problem

    def _recovered(self) -> None:
        if self._problem is not None or self._dropped:
            dropped = f" {self._dropped} events were lost: the queue was full. {self._remedy}"
            self._log.info("%s: emitting works again.%s", self._who, dropped if self._dropped else "")
        self._problem, self._dropped = None, 0


def _counted(count: int, one: str, many: str) -> str:
    return f"1 event {one}" if count == 1 else f"{count} events {many}"
