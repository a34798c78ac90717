"""The watchdog: replaces a loop that makes no pass, so that no hang goes unnoticed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from ..log import log
from .loop_thread import LoopRun, LoopThread

LOOK_S: Final = 1.0
# Longer than the longest pass that still returns (30 s for a stalled read of the registry, 10 s each for a
# commit and its abort; a second commit follows only an answered abort), and longer than
# `kafka.bus.MAX_POLL_INTERVAL_MS`: by then the engine that hangs has left the group, and the new one gets
# partitions at once.
SILENT_S: Final = 60.0
START_S: Final = 300.0  # before its first pass an engine reads the whole registry
MAX_SILENT_S: Final = 3600.0
AGAIN_S: Final = 10.0  # between two attempts to replace a loop
# The current thread and two earlier ones: their problem does not pass by itself.
MAX_HUNG: Final = 3
# A watchdog that has not looked for so long waits for something itself, such as a log that cannot be written.
STALE_S: Final = 30.0


class Watchdog:
    """Checks the loops of a runtime, in a thread of its own that does not use Kafka.

    end_process: called with the reason when MAX_HUNG threads of a loop hang, instead of starting another one;
    for a process that has no other work. None: replace the loop again and again.
    """

    def __init__(self, loops: Sequence[LoopThread], end_process: Callable[[str], None] | None = None) -> None:
        self.loops, self._end_process = loops, end_process
        self._progress: dict[LoopThread, tuple[LoopRun, int]] = {}
        self._silent_s = dict.fromkeys(loops, 0.0)
        self._hanging: tuple[str, ...] = ()  # names of loops, as of the last look
        self._looked_at = time.monotonic()

    @property
    def problem(self) -> str | None:
        """Why a supervisor should restart the process; None if it need not. For any thread; never blocks.

        A loop hangs from its replacement on, until the abandoned thread has ended.
        """
        if self._hanging:
            return f"{' and '.join(self._hanging)}: a thread hangs. The log has its stack."
        silent_s = time.monotonic() - self._looked_at
        return f"The watchdog has not run for {silent_s:.0f} s." if silent_s > STALE_S else None

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_S):
            self.look()

    def look(self) -> None:
        """Called every LOOK_S. It counts calls instead of time, because a suspended process does not hang.

        If a loop cannot be replaced (no thread can be started), it retries, and still checks the others.
        """
        for loop in self.loops:
            try:
                self._look_at(loop)
            except Exception:  # noqa: BLE001  # else nothing would be watched any more
                log.exception("%s could not be replaced; the next attempt is in %.0f s.", loop.name, AGAIN_S)
                # Unless a run makes progress, the next attempt comes after AGAIN_S.
                self._progress[loop], self._silent_s[loop] = loop.progress, patience_s(loop) - AGAIN_S
        self._hanging = tuple(loop.name for loop in self.loops if loop.hung)
        self._looked_at = time.monotonic()

    def _look_at(self, loop: LoopThread) -> None:
        progress = loop.progress
        if self._progress.get(loop) != progress:
            self._progress[loop], self._silent_s[loop] = progress, 0.0
            return
        self._silent_s[loop] += LOOK_S
        if self._silent_s[loop] < patience_s(loop):
            return
        silent = f"made no progress for {self._silent_s[loop]:.0f} s"
        if self._end_process is not None and loop.threads >= MAX_HUNG:
            self._end_process(
                f"{loop.name} {silent}, and {loop.threads - 1} earlier threads still hang: the process ends. "
                f"Start it again. Its last known stack:\n{loop.stack}"
            )
        else:
            loop.replace(f"{silent} and is replaced; it starts again from what is committed.")


def patience_s(loop: LoopThread) -> float:
    """How long a loop may make no pass. Doubles with each hung thread, because each keeps its memory."""
    _, passes = loop.progress
    first: float = START_S if passes == 0 else SILENT_S
    return min(MAX_SILENT_S, first * 2.0**loop.hung)
