"""Questions to Kafka from requests: few at a time, none for long, and each asked once for everybody.

The API server has 40 threads for all its requests, Airflow's own among them. If the brokers do not answer,
requests of this page must not take them all.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from ...engine.sending.threads import DaemonThreads
from ...events.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")
MOST_READINGS: Final = 4  # at a time: each has a Kafka client, which has threads of its own
MOST_WAITING: Final = 8  # requests that wait for a reading
PATIENCE_S: Final = 12.0  # longer than the client waits for the first answer of a broker
FAILURE_KEPT_S: Final = 5.0
MOST_UNDERWAY: Final = 16  # readings that run, or wait for a thread
_MOST_KEPT: Final = 50
_GOES_ON: Final = "The question goes on: ask again in some seconds."
_MAY_BE_DONE: Final = "What was asked may still be done: look before you repeat it."
_BUSY: Final = (
    "{} requests wait for Kafka already: its brokers are slow, or many people look. Ask again in seconds."
)


class NotNow(InterlockError):
    """There is no answer yet: too much is asked, or the brokers take long. Ask again in some seconds."""


@dataclass
class _Reading:
    """A reading that runs, or has ended. until: when its result is too old, as `time.monotonic`."""

    future: Future[Any]
    until: float = 0.0


class Questions:
    """Reads from Kafka for requests. Thread-safe; makes its threads at the first question of a process."""

    def __init__(self, *, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._pid = 0
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._threads = DaemonThreads(MOST_READINGS, "interlock-page")
        self._waiting = threading.BoundedSemaphore(MOST_WAITING)
        self._kept: dict[Hashable, _Reading] = {}

    def ask(self, what: Hashable, read: Callable[[], T], fresh_s: float) -> T:
        """What `read()` returns, from at most `fresh_s` ago; who asks the same meanwhile gets the same.

        what: names the question, with the contents of its bus. Raises what `read` raises, and NotNow if it
        takes longer than `patience_s`: then it goes on, and a later question gets its result.
        """
        with self._lock:
            self._require_own_process()
            known = self._known(what)
            if known is not None and known.future.done():
                return cast("T", known.future.result())
        with self._turn():
            with self._lock:
                known = self._known(what)
                if known is None:
                    self._make_room()
                    future = self._threads.submit(self._timed, what, read, fresh_s)
                    known = self._kept[what] = _Reading(future)
            return cast("T", self._result(known.future, _GOES_ON))

    def do(self, act: Callable[[], T]) -> T:
        """What `act()` returns, which changes something: it is made once, and its result is not kept.

        Raises as `ask`. After NotNow it is not known whether it was done.
        """
        with self._lock:
            self._require_own_process()
        with self._turn():
            return self._result(self._threads.submit(act), _MAY_BE_DONE)

    def forget(self) -> None:
        """Ask anew from now on: something has changed."""
        with self._lock:
            self._kept = {what: each for what, each in self._kept.items() if not each.future.done()}

    def _require_own_process(self) -> None:
        """After a fork the threads are those of the parent."""
        if self._pid != os.getpid():
            self._begin()

    def _timed(self, what: Hashable, read: Callable[[], T], fresh_s: float) -> T:
        began = time.monotonic()
        kept_s = FAILURE_KEPT_S
        try:
            found = read()
            # Whoever waited in vain asks again within some seconds, and must not have to begin anew.
            took_s = time.monotonic() - began
            kept_s = max(fresh_s, took_s if took_s > self._patience_s else 0.0)
        finally:
            with self._lock:
                if (own := self._kept.get(what)) is not None:
                    own.until = time.monotonic() + kept_s
        return found

    def _known(self, what: Hashable) -> _Reading | None:
        """The reading of this question, unless its result is too old."""
        known = self._kept.get(what)
        if known is None or (known.future.done() and time.monotonic() > known.until):
            return None
        return known

    def _make_room(self) -> None:
        """Forget results, the old ones first. Raises NotNow if too many readings go on."""
        now = time.monotonic()
        done = {what: each for what, each in self._kept.items() if each.future.done()}
        if len(self._kept) - len(done) >= MOST_UNDERWAY:
            raise NotNow(_BUSY.format(MOST_UNDERWAY))
        over = [what for what, each in done.items() if now > each.until]
        rest = [what for what in done if what not in over]
        for what in (*over, *rest[: max(0, len(rest) - _MOST_KEPT)]):
            del self._kept[what]

    def _result(self, future: Future[T], advice: str) -> T:
        try:
            return future.result(self._patience_s)
        except TimeoutError:
            if future.done():  # the reading itself has raised it
                raise
            raise NotNow(f"The brokers have not answered for {self._patience_s:.0f} s. {advice}") from None

    @contextmanager
    def _turn(self) -> Iterator[None]:
        turns = self._waiting
        if not turns.acquire(blocking=False):
            raise NotNow(_BUSY.format(MOST_WAITING))
        try:
            yield
        finally:
            turns.release()
