"""A thread that runs a loop, and runs it again after an error."""

from __future__ import annotations

import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeAlias

from structlog.contextvars import bind_contextvars, clear_contextvars
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    sleep_using_event,
    wait_random_exponential,
)
from tenacity.stop import stop_when_event_set

from ...events.visible import Lines
from ..config import BusConfig
from ..errors import EngineError
from ..log import log
from ..waiting.notices import NoticeBoard

MAX_PAUSE_S = 15.0
HEALTHY_AFTER_S = 5.0
# Longer than a pass that ends well: reading, matching and a commit, which has 10 s.
READY_S = 15.0
# Up to Python 3.11.8 a garbage collection that switches threads inside sys._current_frames() can block the
# process for ever (python/cpython#106883).
CAN_BLOCK: Final[bool] = sys.version_info < (3, 11, 9)
# Of two concurrent calls, one would enable garbage collection while the other still takes frames.
_taking_frames = threading.Lock()


class LoopRun(threading.Event):
    """One run of a loop: its config, and an event that is set when the run must end.

    The loop calls `is_set` in each pass, which also shows the watchdog that it does not hang. `abandoned`:
    another thread has replaced this one, whose notices `post` ignores from then on.
    """

    def __init__(self, component: str, config: BusConfig, board: NoticeBoard) -> None:
        super().__init__()
        self.config = config
        self.passes = 0
        self.abandoned = False
        self._component, self._board = component, board
        self._started = 0.0
        self._was_healthy = False
        self._good_at: float | None = None  # the end of the last good pass; None: there was none

    def is_set(self) -> bool:
        self.passes += 1
        return super().is_set()

    @property
    def is_over(self) -> bool:
        """Whether the run must end. Unlike `is_set`, it counts no pass."""
        return super().is_set()

    @property
    def is_ready(self) -> bool:
        """Whether it goes on, and had a good pass within READY_S. For any thread."""
        good_at = self._good_at
        return good_at is not None and not self.is_over and time.monotonic() - good_at <= READY_S

    def begin(self) -> None:
        """Reset the count of passes: the loop starts."""
        self.passes = 0
        self._good_at = None
        self._started = time.monotonic()

    def report_healthy(self) -> None:
        """Called after each good pass. After HEALTHY_AFTER_S of them it clears the component's notice."""
        self._good_at = now = time.monotonic()
        if not self._was_healthy and now - self._started > HEALTHY_AFTER_S:
            self._was_healthy = True
            self.post(self._component, None)

    def never_healthy(self, _: BaseException) -> bool:
        """Whether no good passes came before this error, so that the pauses between runs go on growing."""
        return not self._was_healthy

    def failed(self, error: BaseException | None) -> None:
        """Post the error; log one that is not the engine's own, with its traceback."""
        if not isinstance(error, EngineError):
            log.error("%s failed", self._component, exc_info=error)
        self.post(self._component, str(error) or repr(error))

    def post(self, component: str, text: str | None) -> None:
        """Put a notice on the board, or clear it (None)."""
        if not self.abandoned:
            self._board.post(component, text)


Loop: TypeAlias = Callable[[LoopRun], None]


class LoopThread:
    """Runs a loop until `stop`. An error that ends the loop is posted to the board; then it runs again.

    `failures`: runs that ended with an error. `replaced`: threads that were abandoned because they hung.
    """

    def __init__(self, name: str, loop: Loop, config: BusConfig, board: NoticeBoard) -> None:
        self.name = name
        self.failures = 0
        self.replaced = 0
        self._loop, self._board = loop, board
        self._lock = threading.Lock()
        self._stopped = False
        self._run = self._running = LoopRun(name, config, board)  # the newest; the one that the thread runs
        self._thread: threading.Thread | None = None
        self._abandoned: list[threading.Thread] = []

    @property
    def progress(self) -> tuple[LoopRun, int]:
        """Changes as long as the thread does not hang."""
        return self._run, self._run.passes

    @property
    def is_ready(self) -> bool:
        """Whether its run is ready (see `LoopRun.is_ready`). For any thread."""
        return self._run.is_ready

    @property
    def hung(self) -> int:
        """For the watchdog's thread. How many abandoned threads have not ended yet."""
        self._abandoned = [thread for thread in self._abandoned if thread.is_alive()]
        return len(self._abandoned)

    @property
    def threads(self) -> int:
        """How many threads there are: the current one, and abandoned ones that have not ended yet."""
        return self.hung + (self._thread is not None and self._thread not in self._abandoned)

    @property
    def stack(self) -> str:
        """The innermost calls of the current thread, formatted as in a traceback."""
        frame = frames().get(self._thread.ident or -1) if self._thread is not None else None
        return "".join(traceback.format_stack(frame)[-8:]) if frame else "(the thread has ended)\n"

    def start(self) -> None:
        with self._lock:
            if not self._stopped:
                self.start_thread()

    def start_thread(self) -> None:
        """Start a thread and make it the current one. RuntimeError if the system has no more."""
        name = "interlock-" + self.name.lower().removeprefix("the ")
        thread = threading.Thread(target=self._thread_main, name=name, daemon=True)
        thread.start()  # if this raises, the previous thread remains the current one
        self._thread = thread

    def stop(self) -> None:
        """End the current run, and start no other."""
        with self._lock:
            self._stopped = True
            self._run.set()

    def join(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    def use(self, config: BusConfig) -> None:
        """End the current run and start another with this config."""
        with self._lock:
            if self._stopped:
                return
            over, self._run = self._run, LoopRun(self.name, config, self._board)
            over.set()

    def replace(self, reason: str) -> None:
        """Abandon the thread and continue in a new one."""
        with self._lock:
            thread = self._thread
            if self._stopped or thread is None:
                return
            for run in (self._running, self._run):
                run.abandoned = True
                run.set()
            self._run = LoopRun(self.name, self._run.config, self._board)
            if thread not in self._abandoned:  # it is if an earlier call could not start a new thread
                self._abandoned.append(thread)
                self.replaced += 1
            log.error("%s %s Its last known stack:\n%s", self.name, reason, Lines(self.stack))
            self.start_thread()
        self._board.post(self.name, f"{self.name} {reason}")

    def _thread_main(self) -> None:
        while True:
            with self._lock:
                if self._stopped or self._thread is not threading.current_thread():
                    return
                run = self._running = self._run

            def before_sleep(state: RetryCallState, run: LoopRun = run) -> None:
                self.failed(run, state.outcome.exception() if state.outcome else None)

            again = Retrying(
                # An error after a healthy time is a new problem: end this Retrying; pauses are short again.
                retry=retry_if_exception(run.never_healthy),
                wait=wait_random_exponential(multiplier=0.5, max=MAX_PAUSE_S),
                sleep=sleep_using_event(run),
                stop=stop_when_event_set(run),
                before_sleep=before_sleep,
                reraise=True,
            )
            try:
                again(self._run_once, run)
            except Exception as e:  # noqa: BLE001  # shown in the logs of the waiting tasks
                if not run.is_set():
                    self.failed(run, e)
                    run.wait(0.5)
                    with self._lock:
                        if self._run is run:
                            self._run = LoopRun(self.name, run.config, self._board)

    def _run_once(self, run: LoopRun) -> None:
        if run.is_over:  # set during the pause; Retrying checks only after a run
            return
        # These fields are in each log line of this thread. Clear the previous run's, such as its engine.
        clear_contextvars()
        bind_contextvars(bus=run.config.name)
        run.begin()
        self._loop(run)

    def failed(self, run: LoopRun, error: BaseException | None) -> None:
        """Called in the thread when a run has ended with an error, before the next run."""
        self.failures += 1
        run.failed(error)


def frames() -> dict[int, FrameType]:
    """{thread ident: current frame} of all threads. Garbage collection is off where it could block."""
    if not CAN_BLOCK:
        return sys._current_frames()
    with _taking_frames:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if collects:
                gc.enable()
