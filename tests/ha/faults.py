"""Carries out the faults of a plan on an installation."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from .installation import Installation, Say
from .plan import DISTURBING, Fault, Plan


@dataclass(frozen=True)
class WaitCounts:
    """How many waits each triggerer has at a moment, and which one a fault then hits."""

    when: str
    struck: str | None
    waits: dict[str, int]


class Faults:
    """The faults of one run.

    happened: how often each kind was done. times: (begin, end) of disturbing faults, ms since the epoch.
    moved: waits that moved to another triggerer while theirs was stopped. wait_counts: before the faults, and
    at each fault that hits a triggerer.
    """

    def __init__(self, site: Installation, say: Say, planned: Plan, waiting: str, *, target: bool) -> None:
        """waiting: the run of ha_waits. target: whether there is a dispatch, whose target can be paused."""
        self._site, self._say, self._plan = site, say, planned
        self._waiting, self._target = waiting, target
        self.happened: Counter[str] = Counter()
        self.times: list[tuple[float, float]] = []
        self.moved = 0
        self.wait_counts = [self._counted("the load begins", None, self._places())]
        self._stopped_ms = 0.0
        self._stopped: dict[int, str] = {}  # {wait: name of its triggerer, which was stopped}

    def run(self, began: float) -> None:
        """Carries out the plan, which began at this `time.monotonic()`; returns at its end."""
        left = list(self._plan.faults)
        while left or time.monotonic() - began < self._plan.ends_s:
            if left and left[0].at_s <= time.monotonic() - began:
                fault = left.pop(0)
                kind = fault.kind
                begin = time.time() * 1000
                self._do(fault)
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

    def _places(self) -> dict[int, str]:
        return self._site.places("ha_waits", self._waiting, "wait")

    def _counted(self, when: str, struck: str | None, places: dict[int, str]) -> WaitCounts:
        counts = Counter(places.values())
        counted = WaitCounts(when, struck, {name: counts[name] for name in self._site.airflow.triggerers})
        self._say(f"{when}{f', {struck}' if struck else ''}: waits of {counted.waits}")
        return counted

    def _struck(self, fault: Fault, places: dict[int, str]) -> str:
        """Chooses the triggerer that a fault hits, and records who has the waits."""
        running, having = self._site.airflow.triggerers, set(places.values())
        order = [running[number] for number in fault.victims]
        fit = [name for name in order if name in having] if fault.with_waits else order
        struck = (fit or order)[0]
        self.wait_counts.append(self._counted(fault.kind, struck, places))
        return struck

    def _do(self, fault: Fault) -> None:
        airflow, kind = self._site.airflow, fault.kind
        if kind == "stop a triggerer":
            places = self._places()
            struck = self._struck(fault, places)
            self._stopped = {number: name for number, name in places.items() if name == struck}
            airflow.hang_triggerer(struck)
        elif kind == "continue the triggerer":
            now = self._places()
            self.moved = sum(now.get(number, before) != before for number, before in self._stopped.items())
            self._say(f"{self.moved} waits have moved from the stopped triggerer")
            airflow.continue_triggerer()
        elif kind == "kill a triggerer":
            airflow.kill_triggerer(self._struck(fault, self._places()))
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
