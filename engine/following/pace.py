"""How much of a process's time a follower takes, so that what else runs there is not slowed."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """work_s: the processor time after which it rests. share: of the time that it works and rests.

    idle_s: how long nobody asks until it ends. retry_s: how long it waits after an error. probe_s: after so
    long without a record it asks the brokers whether they answer. compare_s: how often it looks whether the
    topics are still the same ones.
    """

    work_s: float = 0.0005
    share: float = 0.2
    idle_s: float = 600.0
    retry_s: float = 5.0
    probe_s: float = 5.0
    compare_s: float = 60.0


class Rests:
    """Makes this thread rest when it is time to. stop: ends a rest at once.

    Without rests, a thread that computes would delay all others of the process, which share one lock.
    """

    def __init__(self, pace: Pace, stop: threading.Event) -> None:
        self._pace, self._stop = pace, stop
        self._began = time.thread_time()

    def after_work(self) -> None:
        """Call it after each small step. Rests in proportion to the work, once there is enough of it."""
        worked_s = time.thread_time() - self._began
        if worked_s >= self._pace.work_s:
            self._stop.wait(worked_s * (1 / self._pace.share - 1))
            self._began = time.thread_time()
