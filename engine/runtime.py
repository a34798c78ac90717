"""The process-wide runtime: one engine and one set of waits per bus, each in a thread of its own.

Started by the first trigger that runs in a process. Never at import: Airflow forks, and a Kafka client
does not survive a fork, so runtimes are kept by process id.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable

from tenacity import Retrying, retry_if_exception_type, sleep_using_event, wait_random_exponential
from tenacity.stop import stop_when_event_set

from .clients import log
from .config import BusConfig
from .errors import EngineError
from .kafka import KafkaBus
from .loop import Engine
from .notices import NoticeBoard
from .records import topics_read_by_engine
from .topics import check
from .waits import Waits

MOST_WAIT_S = 15.0
STOP_TIMEOUT_S = 8.0
_runtimes: dict[tuple[int, str], Runtime] = {}
_lock = threading.Lock()


class Runtime:
    """An engine and the waits of one bus in this process. Use `Runtime.of`."""

    def __init__(self, config: BusConfig) -> None:
        self.config = config
        self.board = NoticeBoard()
        self.waits = Waits(config, self.board)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._live, args=(name, life), name=f"interlock-{name}", daemon=True)
            for name, life in (("engine", self._run_engine), ("waits", self._run_waits))
        ]

    @classmethod
    def of(cls, config: BusConfig) -> Runtime:
        """The runtime of this bus in this process, started if need be. Returns at once."""
        key = (os.getpid(), config.identity)
        with _lock:
            runtime = _runtimes.get(key)
            if runtime is None:
                runtime = _runtimes[key] = cls(config)
                runtime.start()
                atexit.register(runtime.stop)
        return runtime

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Leave the group and stop the threads, so that others take over at once. Bounded."""
        self._stop.set()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _live(self, name: str, life: Callable[[], None]) -> None:
        """Run a part for ever: what ends it is told to the waiting tasks, and it starts again."""
        part = f"The {name}"

        def told(state: object) -> None:
            error = state.outcome.exception()  # type: ignore[attr-defined]  # tenacity's RetryCallState
            if not isinstance(error, EngineError):
                log.error("%s failed", part, exc_info=error)
            self.board.post(part, str(error) or repr(error))

        while not self._stop.is_set():
            again = Retrying(
                retry=retry_if_exception_type(Exception),
                wait=wait_random_exponential(multiplier=0.5, max=MOST_WAIT_S),
                sleep=sleep_using_event(self._stop),
                stop=stop_when_event_set(self._stop),
                before_sleep=told,
                reraise=False,
            )
            try:
                again(life)
            except Exception:  # noqa: BLE001  # told before; only a stop gets here
                log.debug("%s stopped", part, exc_info=True)

    def _run_engine(self) -> None:
        run_engine(self.config, self._stop, lambda: self.board.post("The engine", None))

    def _run_waits(self) -> None:
        self.waits.run(self._stop)


def run_engine(config: BusConfig, stop: threading.Event, started: Callable[[], None] | None = None) -> None:
    """Run one engine until `stop`; `started` is called when it has joined. EngineError ends it."""
    counts = check(config)
    bus = KafkaBus(config, topics_read_by_engine(config))
    try:
        engine = Engine(bus, config, counts[config.topic("trigger")])
    except BaseException:
        bus.close()
        raise
    try:
        if started is not None:
            started()
        while not stop.is_set():
            engine.run_pass()
    finally:
        engine.close()
