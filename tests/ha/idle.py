"""The cost of 1,000 waits for a triggerer, and a pool that grows to three, loses one and shrinks to one."""

from __future__ import annotations

import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from .crowd import Crowd, Tasks
from .faulty import emit, half
from .installation import Installation, Say
from .judge import Differences, Wait, actions, appended, judge_registrations, judge_waits

FIRED = 50  # waits that are met in each of the four states of the pool, a quarter of all at most
SETTLE_S = 300.0


class Idle:
    """One run, like `faulty.Run`."""

    def __init__(self, folder: Path, say: Say, *, waits: int, seed: int) -> None:
        self._folder, self._say, self._waits, self._seed = folder, say, waits, seed
        self._numbers = random.Random(seed).sample(range(waits), waits)
        self.differences = Differences()

    def execute(self) -> dict[str, Any]:
        with Installation(
            self._folder, self._say, triggerers=1, waits=self._waits, floors=self._waits
        ) as site:
            return self._in(site)

    def _in(self, site: Installation) -> dict[str, Any]:
        site.api.wait_for_dags("ha_held", "ha_floor", timeout_s=120)
        crowd = Crowd(site, self._say, self._waits)
        tasks = crowd.measure_all(lambda: datetime.now(UTC) + timedelta(days=1), lambda _: None)
        fired = self._change(site, tasks)
        self._judge(site, tasks, crowd.expected(tasks))
        return {
            "seed": self._seed,
            "waits": self._waits,
            "fired": len(fired),
            **self.differences.counts(),
            **crowd.form(),
        }

    # -- 1 -> 3 -> 1

    def _change(self, site: Installation, tasks: Tasks) -> list[int]:
        """Changes the pool; returns the numbers of the waits that were met meanwhile."""
        site.api.size_pool("held", 8)
        emit(site.emitter, [half("first", number) for number in range(self._waits)])
        fired: list[int] = []
        self._fire(site, fired, "one triggerer")
        for _ in range(2):
            site.airflow.start_triggerer()
        self._fire(site, fired, "three triggerers")
        site.airflow.kill_triggerer()  # the oldest: it has the waits
        self._fire(site, fired, "the one with the waits was killed")
        # Its waits move to others after Airflow's threshold.
        self._settled(site, tasks, len(fired))
        site.airflow.stop_triggerer()
        self._fire(site, fired, "one triggerer again")
        self._settled(site, tasks, len(fired))
        time.sleep(15)  # watch for unexpected firings
        return fired

    def _fire(self, site: Installation, fired: list[int], state: str) -> None:
        chosen = self._numbers[len(fired) : len(fired) + min(FIRED, self._waits // 4)]
        self._say(f"{state}: {len(chosen)} waits are met")
        for number in chosen:
            emit(site.emitter, [half("second", number)])
            time.sleep(0.2)
        fired += chosen

    def _settled(self, site: Installation, tasks: Tasks, wanted: int) -> None:
        """Waits until `wanted` tasks have succeeded or the time is over; then the verdict says what is
        missing."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            found = site.tasks(tasks.dag_id, tasks.run_id, tasks.task_id)
            states = Counter(str(task["state"]) for task in found)
            self._say(f"waits: {dict(states)}")
            if states["success"] >= wanted:
                return
            site.airflow.processes.check()
            if time.monotonic() > deadline:
                self._say(f"not settled after {SETTLE_S:.0f} s")
                return
            time.sleep(5)

    def _judge(self, site: Installation, of: Tasks, waits: dict[int, Wait]) -> None:
        log, unread = site.record()
        tasks = site.tasks(of.dag_id, of.run_id, of.task_id)
        ended = [task["map_index"] for task in tasks if task["state"] == "success"]
        outputs = {number: site.api.output(of.dag_id, of.run_id, of.task_id, number) for number in ended}
        sent = appended(record for records in log.kind("event") for record in records)
        by_subscription = actions(record for records in log.kind("action") for record in records)
        by_subscription = {name: found for name, found in by_subscription.items() if f"/{of.run_id}/" in name}
        self.differences = judge_waits(waits, sent, by_subscription, tasks, outputs)
        self.differences.add(judge_registrations(waits, log, by_subscription))
        self.differences.missing += unread
