"""Does to an installation what a plan says, when it says so."""

from __future__ import annotations

import time
from collections import Counter

from .installation import Installation, Say
from .plan import DISTURBING, Plan


class Faults:
    """The faults of one run.

    happened: how often each kind was done. times: begin and end of what disturbs, ms since the epoch.
    moved: waits that another triggerer took while the one that had them was stopped.
    """

    def __init__(self, site: Installation, say: Say, planned: Plan, waiting: str, *, target: bool) -> None:
        """waiting: the run of ha_waits. target: whether there is a dispatch, whose target can be paused."""
        self._site, self._say, self._plan = site, say, planned
        self._waiting, self._target = waiting, target
        self.happened: Counter[str] = Counter()
        self.times: list[tuple[float, float]] = []
        self.moved = 0
        self._stopped_ms = 0.0
        self._places: dict[int, int] = {}  # of the waits, when one was stopped

    def run(self, began: float) -> None:
        """Returns when all is done and the plan is over, which began at this `time.monotonic()`."""
        left = list(self._plan.faults)
        while left or time.monotonic() - began < self._plan.ends_s:
            if left and left[0].at_s <= time.monotonic() - began:
                kind = left.pop(0).kind
                begin = time.time() * 1000
                self._do(kind)
                if kind == "stop a triggerer":
                    self._stopped_ms = begin
                elif kind == "continue the triggerer":
                    self.times.append((self._stopped_ms, time.time() * 1000))
                elif kind in DISTURBING:
                    self.times.append((begin, time.time() * 1000))
                self.happened[kind] += 1
                self._say(f"{kind}: done at {time.monotonic() - began:.0f} s of the load")
            self._site.airflow.processes.check()
            time.sleep(0.1)

    def _do(self, kind: str) -> None:
        airflow = self._site.airflow
        if kind == "stop a triggerer":
            self._places = self._site.places("ha_waits", self._waiting, "wait")
            airflow.hang_triggerer()
        elif kind == "continue the triggerer":
            now = self._site.places("ha_waits", self._waiting, "wait")
            self.moved = sum(now[number] != self._places.get(number, now[number]) for number in now)
            self._say(f"{self.moved} waits have moved from the stopped triggerer")
            airflow.continue_triggerer()
        elif kind == "kill a triggerer":
            airflow.kill_triggerer()
        elif kind == "start a triggerer":
            airflow.start_triggerer()
        elif kind == "restart the broker":
            self._site.broker.restart()
        elif not self._target:
            return
        elif kind == "pause the target":
            self._site.api.pause("ha_target")
        else:
            self._site.api.unpause("ha_target")
