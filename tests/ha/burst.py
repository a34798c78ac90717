"""1,000 waits that are met at one moment, compared with 1,000 stock triggers that yield at one moment.

Both run in one installation with one triggerer, one after the other. No worker may run tasks that leave
`deferred`, so that only this time is measured: from the moment (for waits: the append of the first of their
completing events, which are emitted in one batch) until the last task has left `deferred`.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from .aims import FLOOR, judged
from .crowd import REST_S, Crowd, Tasks
from .faulty import emit, half
from .installation import Installation, Say
from .judge import (
    Action,
    Differences,
    Wait,
    actions,
    appended,
    half_met,
    judge_registrations,
    judge_waits,
    milliseconds,
    spread,
)

# From the creation of the stock triggers to their moment: until then they are started (50 per pass) and
# measured.
LEAD_S = 180.0
HALF_MET_S, LEAVE_S = 60.0, 180.0
LATE_S = 15.0  # how long to watch for unexpected firings


class Burst:
    """One run, like `faulty.Run`."""

    def __init__(self, folder: Path, say: Say, *, waits: int) -> None:
        self._folder, self._say, self._waits = folder, say, waits
        self._moment = datetime.now(UTC)
        self._floors: list[float] = []
        self.differences = Differences()

    def execute(self) -> dict[str, Any]:
        with Installation(
            self._folder, self._say, triggerers=1, waits=self._waits, floors=self._waits
        ) as site:
            return self._in(site)

    def _in(self, site: Installation) -> dict[str, Any]:
        site.api.wait_for_dags("ha_held", "ha_floor", timeout_s=120)
        crowd = Crowd(site, self._say, self._waits)

        def moment() -> datetime:
            self._moment = datetime.now(UTC) + timedelta(seconds=LEAD_S)
            return self._moment

        waits = crowd.measure_all(moment, lambda stock: self._stock(site, stock))
        took, decided = self._resume(site, waits, crowd.expected(waits))
        floors = self._floors
        ratio = round(max(took) / max(floors), 3) if took and floors else None
        return {
            "waits": self._waits,
            **self.differences.counts(),
            "left_deferred_ms": spread(took),
            "floor_ms": spread(floors),
            **judged("ratio_all_left", ratio, FLOOR),
            "decided_ms": spread(decided),
            **crowd.form(),
        }

    def _stock(self, site: Installation, stock: Tasks) -> None:
        late = (datetime.now(UTC) - self._moment).total_seconds()
        if late > 0:
            raise RuntimeError(f"the stock triggers were measured {late:.0f} s after their moment")
        self._say(f"the stock triggers yield in {-late:.0f} s")
        time.sleep(-late)
        self._until_left(site, stock)
        self._floors = _left_ms(site, stock, self._moment.timestamp() * 1000)
        self._say(f"stock triggers: {spread(self._floors)}")
        if len(self._floors) < self._waits:
            raise RuntimeError(
                f"only {len(self._floors)} of {self._waits} stock triggers resumed their tasks"
            )

    def _resume(
        self, site: Installation, of: Tasks, waits: dict[int, Wait]
    ) -> tuple[list[float], list[float]]:
        """Ms from the first append until each task left `deferred`, and until each firing was decided."""
        emit(site.emitter, [half("first", number) for number in range(self._waits)])
        site.until(
            "all waits are half met",
            lambda: half_met(waits, site.follower.snapshot()) == self._waits,
            HALF_MET_S,
            every_s=2,
        )
        time.sleep(REST_S)
        self._say("emitting the second events")
        emit(site.emitter, [half("second", number) for number in range(self._waits)])
        self._until_left(site, of)
        time.sleep(LATE_S)
        log, unread = site.record()
        sent = appended(record for records in log.kind("event") for record in records)
        by_subscription = actions(record for records in log.kind("action") for record in records)
        by_subscription = {name: found for name, found in by_subscription.items() if f"/{of.run_id}/" in name}
        tasks = site.tasks(of.dag_id, of.run_id, of.task_id)
        resumed = site.resumed(of.dag_id, of.run_id, of.task_id)
        outputs = {number: taken(each) for number, each in resumed.items()}
        self.differences = judge_waits(waits, sent, by_subscription, tasks, outputs, done="scheduled")
        self.differences.add(judge_registrations(waits, log, by_subscription))
        self.differences.missing += unread
        halves = (half("second", number).id for number in range(self._waits))
        begin = min((sent[each].at_ms for each in halves if each in sent), default=None)
        if begin is None:  # the differences say what was not read
            return [], []
        took = _left_ms(site, of, begin)
        self._say(f"waits: {spread(took)}")
        return took, decided_ms(by_subscription, begin)

    def _until_left(self, site: Installation, tasks: Tasks) -> None:
        """Waits until none is deferred or the time is over; then the verdict says what is missing."""
        deadline = time.monotonic() + LEAVE_S
        while left := site.api.count(tasks.dag_id, tasks.run_id, tasks.task_id, "deferred"):
            self._say(f"{tasks.dag_id}: {left} tasks are deferred")
            site.airflow.processes.check()
            if time.monotonic() > deadline:
                self._say(f"some tasks are still deferred after {LEAVE_S:.0f} s")
                return
            time.sleep(2)


def taken(resumed: dict[str, Any]) -> dict[str, Any]:
    """{"firing_id": id of the firing that a task was resumed with}; if it was not, what was found instead."""
    event = resumed.get("event") or {}
    if resumed.get("next_method") != "execute_complete" or event.get("outcome") != "fired":
        return resumed
    return {"firing_id": json.loads(event["action"])["firing"]["id"]}


def decided_ms(by_subscription: dict[str, dict[str, Action]], begin_ms: float) -> list[float]:
    firings = [action for found in by_subscription.values() for action in found.values()]
    return [action.fired[0].timestamp_ms - begin_ms for action in firings if action.fired]


def _left_ms(site: Installation, tasks: Tasks, begin_ms: float) -> list[float]:
    """Ms until each task that has left `deferred` did so."""
    return [
        milliseconds(task["scheduled_when"]) - begin_ms
        for task in site.tasks(tasks.dag_id, tasks.run_id, tasks.task_id)
        if task["state"] != "deferred"
    ]
