"""A part of the runtime: a loop in a thread of its own, which starts again whatever ends it."""

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

from ..config import BusConfig
from ..errors import EngineError
from ..log import log
from ..waiting.notices import NoticeBoard

MOST_WAIT_S = 15.0
WELL_AFTER_S = 5.0
# Up to Python 3.11.8 a collection that lets another thread go on in sys._current_frames() can stop the
# process for ever (python/cpython#106883).
_CAN_STOP: Final[bool] = sys.version_info < (3, 11, 9)
# Of two calls at once the first would let things be collected again while the second is inside.
_taking_frames = threading.Lock()


class Turn(threading.Event):
    """What a life goes by: its config, and, once set, that it is over.

    A life asks `is_set` in each pass, and shows by asking that it is not stuck. `abandoned`: another thread
    has taken its place; nothing that others see may be changed any more, and `post` does not.
    """

    def __init__(self, part: str, config: BusConfig, board: NoticeBoard) -> None:
        super().__init__()
        self.config = config
        self.passes = 0
        self.abandoned = False
        self._part, self._board = part, board
        self._started = 0.0
        self._was_well = False

    def is_set(self) -> bool:
        self.passes += 1
        return super().is_set()

    def begin(self) -> None:
        """A life begins: it has made no pass yet."""
        self.passes = 0
        self._started = time.monotonic()

    def well(self) -> None:
        """Said in each good pass: after a while of them, what was wrong before is over."""
        if not self._was_well and time.monotonic() - self._started > WELL_AFTER_S:
            self._was_well = True
            self.post(self._part, None)

    def was_not_well(self, _: BaseException) -> bool:
        return not self._was_well

    def failed(self, error: BaseException | None) -> None:
        if not isinstance(error, EngineError):
            log.error("%s failed", self._part, exc_info=error)
        self.post(self._part, str(error) or repr(error))

    def post(self, part: str, text: str | None) -> None:
        if not self.abandoned:
            self._board.post(part, text)


Life: TypeAlias = Callable[[Turn], None]


class Part:
    """Runs a life for ever: what ends it is told to the waiting tasks, and it starts again.

    `failures`: lives that ended with an error. `replaced`: threads that were given up.
    """

    def __init__(
        self, name: str, thread_name: str, life: Life, config: BusConfig, board: NoticeBoard
    ) -> None:
        self.name = name
        self.failures = 0
        self.replaced = 0
        self._thread_name, self._life, self._board = thread_name, life, board
        self._lock = threading.Lock()
        self._stopped = False
        self._turn = self._running = Turn(name, config, board)
        self._thread: threading.Thread | None = None
        self._given_up: list[threading.Thread] = []

    @property
    def sign(self) -> tuple[Turn, int]:
        """Changes as long as the thread is not stuck."""
        return self._turn, self._turn.passes

    @property
    def stuck(self) -> int:
        """How many threads that were given up have not ended yet."""
        self._given_up = [thread for thread in self._given_up if thread.is_alive()]
        return len(self._given_up)

    @property
    def threads(self) -> int:
        """The present thread, and those that were given up and have not ended yet."""
        return self.stuck + (self._thread is not None and self._thread not in self._given_up)

    @property
    def where(self) -> str:
        """The last calls that the present thread is in, as a traceback shows them."""
        frame = frames().get(self._thread.ident or -1) if self._thread is not None else None
        return "".join(traceback.format_stack(frame)[-8:]) if frame else "it has ended meanwhile\n"

    def start(self) -> None:
        with self._lock:
            if not self._stopped:
                self._start()

    def _start(self) -> None:
        thread = threading.Thread(target=self._live, name=self._thread_name, daemon=True)
        thread.start()  # where none can be started, the one before stays the present one
        self._thread = thread

    def stop(self) -> None:
        """Let the present life end, and begin no other."""
        with self._lock:
            self._stopped = True
            self._turn.set()

    def join(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    def use(self, config: BusConfig) -> None:
        """Go on with this config in a new life."""
        with self._lock:
            if self._stopped:
                return
            over, self._turn = self._turn, Turn(self.name, config, self._board)
            over.set()

    def replace(self, reason: str) -> None:
        """Give the thread up, and go on in a new one."""
        with self._lock:
            thread = self._thread
            if self._stopped or thread is None:
                return
            for turn in (self._running, self._turn):
                turn.abandoned = True
                turn.set()
            self._turn = Turn(self.name, self._turn.config, self._board)
            if thread not in self._given_up:  # else the last try to start another one failed
                self._given_up.append(thread)
                self.replaced += 1
            log.error("%s %s It was last seen here:\n%s", self.name, reason, self.where)
            self._start()
        self._board.post(self.name, f"{self.name} {reason}")

    def _live(self) -> None:
        while True:
            with self._lock:
                if self._stopped or self._thread is not threading.current_thread():
                    return
                turn = self._running = self._turn

            def before_sleep(state: RetryCallState, turn: Turn = turn) -> None:
                self._failed(turn, state.outcome.exception() if state.outcome else None)

            again = Retrying(
                # Trouble after a good time is new trouble: out of this loop, and back to short pauses.
                retry=retry_if_exception(turn.was_not_well),
                wait=wait_random_exponential(multiplier=0.5, max=MOST_WAIT_S),
                sleep=sleep_using_event(turn),
                stop=stop_when_event_set(turn),
                before_sleep=before_sleep,
                reraise=True,
            )
            try:
                again(self._one, turn)
            except Exception as e:  # noqa: BLE001  # told to the waiting tasks
                if not turn.is_set():
                    self._failed(turn, e)
                    turn.wait(0.5)
                    with self._lock:
                        if self._turn is turn:
                            self._turn = Turn(self.name, turn.config, self._board)

    def _one(self, turn: Turn) -> None:
        # Of each line of this thread; what the life before had bound, as its engine, is over.
        clear_contextvars()
        bind_contextvars(bus=turn.config.name)
        turn.begin()
        self._life(turn)

    def _failed(self, turn: Turn, error: BaseException | None) -> None:
        self.failures += 1
        turn.failed(error)


def frames() -> dict[int, FrameType]:
    """What each thread runs, by its ident. Nothing is collected meanwhile where it must not be."""
    if not _CAN_STOP:
        return sys._current_frames()
    with _taking_frames:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if collects:
                gc.enable()
