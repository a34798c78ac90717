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
from typing import TypeAlias

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    sleep_using_event,
    wait_random_exponential,
)
from tenacity.stop import stop_when_event_set

from .config import BusConfig
from .errors import EngineError
from .kafka.bus import KafkaBus
from .kafka.topics import check
from .log import log
from .notices import NoticeBoard
from .protocol.loop import Engine
from .waits import Waits

MOST_WAIT_S = 15.0
STOP_TIMEOUT_S = 8.0
WELL_AFTER_S = 5.0
READ_AGAIN_S = 15.0
Life: TypeAlias = Callable[[threading.Event, BusConfig, Callable[[], None]], None]
_runtimes: dict[tuple[int, str, str, str], Runtime] = {}
_lock = threading.Lock()


class Runtime:
    """An engine and the waits of one bus in this process. Use `Runtime.of`."""

    def __init__(self, config: BusConfig) -> None:
        self.config = config
        self.board = NoticeBoard()
        self.waits = Waits(config, self.board)
        self._stopped = False
        self._life_over = threading.Event()  # of the present lives of both threads; anew with each config
        self._lock = threading.Lock()
        self._read_again_at = 0.0
        lives: tuple[tuple[str, Life], ...] = (("The engine", _run_engine), ("The waits", self._run_waits))
        self._threads = [
            threading.Thread(target=self._live, args=(part, life), name=f"interlock-{name}", daemon=True)
            for name, (part, life) in zip(("engine", "waits"), lives, strict=True)
        ]

    @classmethod
    def of(cls, config: BusConfig) -> Runtime:
        """The runtime of this bus and connection in this process, started if need be. Returns at once.

        A connection that reads otherwise than before gives it new clients: open waits go on with them.
        """
        key = (os.getpid(), config.name, config.deployment, config.connection)
        with _lock:
            runtime = _runtimes.get(key)
            if runtime is None:
                runtime = _runtimes[key] = cls(config)
                runtime.start()
                atexit.register(runtime.stop)
        runtime.use(config)
        return runtime

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Leave the group and stop the threads, so that others take over at once. Bounded."""
        with self._lock:  # a changed connection must not begin new lives behind this
            self._stopped = True
            self._life_over.set()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def use(self, config: BusConfig) -> None:
        """Go on with this config: where it differs from the present one, all clients are made anew."""
        with self._lock:
            if config.identity == self.config.identity or self._stopped:
                return
            log.info("The connection of %s has changed; its clients are made anew.", config.describe())
            self.config = config
            over, self._life_over = self._life_over, threading.Event()
            over.set()

    def may_read_connection(self) -> bool:
        """Whether a troubled wait should read its connection again: one of them all, now and then."""
        with self._lock:
            now = time.monotonic()
            if now < self._read_again_at:
                return False
            self._read_again_at = now + READ_AGAIN_S
            return True

    def _live(self, part: str, life: Life) -> None:
        """Run a part for ever: what ends it is told to the waiting tasks, and it starts again."""
        while not self._stopped:
            with self._lock:
                config, over = self.config, self._life_over
            spell = _Spell(lambda: self.board.post(part, None))

            def before_sleep(state: RetryCallState) -> None:
                self._told(part, state.outcome.exception() if state.outcome else None)

            again = Retrying(
                # Trouble after a good time is new trouble: out of this loop, and back to short pauses.
                retry=retry_if_exception(spell.was_not_well),
                wait=wait_random_exponential(multiplier=0.5, max=MOST_WAIT_S),
                sleep=sleep_using_event(over),
                stop=stop_when_event_set(over),
                before_sleep=before_sleep,
                reraise=True,
            )
            try:
                again(spell.run, life, over, config)
            except Exception as e:  # noqa: BLE001  # told to the waiting tasks
                if not over.is_set():
                    self._told(part, e)
                    over.wait(0.5)

    def _told(self, part: str, error: BaseException | None) -> None:
        if not isinstance(error, EngineError):
            log.error("%s failed", part, exc_info=error)
        self.board.post(part, str(error) or repr(error))

    def _run_waits(self, over: threading.Event, config: BusConfig, well: Callable[[], None]) -> None:
        self.waits.run(over, config, well)


class _Spell:
    """The lives of a part up to the first that was well: a part that fails again and again is not."""

    def __init__(self, say_well: Callable[[], None]) -> None:
        self._say_well = say_well
        self._started = 0.0
        self._was_well = False

    def run(self, life: Life, over: threading.Event, config: BusConfig) -> None:
        self._started = time.monotonic()
        life(over, config, self._well)

    def was_not_well(self, _: BaseException) -> bool:
        return not self._was_well

    def _well(self) -> None:
        if not self._was_well and time.monotonic() - self._started > WELL_AFTER_S:
            self._was_well = True
            self._say_well()


def _run_engine(over: threading.Event, config: BusConfig, well: Callable[[], None]) -> None:
    run_engine(config, over, well)


def run_engine(config: BusConfig, stop: threading.Event, well: Callable[[], None] = lambda: None) -> None:
    """Run one engine until `stop`; EngineError ends it. `well`: called in each pass with open partitions."""
    check(config)
    bus = KafkaBus(config)
    try:
        engine = Engine(bus, config)
    except BaseException:
        bus.close()
        raise
    try:
        while not stop.is_set():
            engine.run_pass()
            if engine.is_open:
                well()
    finally:
        engine.close()
