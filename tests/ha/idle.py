"""What 1,000 waits cost a triggerer, and a pool that grows to three, loses one and shrinks to one.

Each measurement is of a triggerer that was started for it: nothing, as many stock triggers, one wait, all
waits. The last keeps its waits while the pool changes.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from interlock.conditions import event

from .faulty import emit, half
from .installation import BUS, DEPLOYMENT, Installation, Say
from .judge import Differences, Wait, actions, appended, judge_waits
from .measure import Figures, measure

MEASURED_S, REST_S = 20.0, 15.0
FIRED = 50  # in each state of the pool
SETTLE_S = 300.0


class Idle:
    """One run, as `faulty.Run`."""

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
        figures = {"nothing": self._measured(site, "no triggers")}
        later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        run_id = site.hold("ha_floor", "floor", "ha_floor.Floor", lambda _: [{"moment": later}] * self._waits)
        self._claimed(site, "ha_floor", run_id, "floor", self._waits)
        figures["stock triggers"] = self._measured(site, f"{self._waits} stock triggers")
        site.api.end_run("ha_floor", run_id)
        for name, count in (("one wait", 1), ("waits", self._waits)):
            self._fresh_triggerer(site)
            run_id = site.hold(
                "ha_held",
                "wait",
                "interlock.triggers.event.EventTrigger",
                lambda run_id, count=count: [self._trigger(run_id, number) for number in range(count)],
            )
            self._claimed(site, "ha_held", run_id, "wait", count)
            figures[name] = self._measured(site, f"{count} wait(s)")
            if name != "waits":
                site.api.end_run("ha_held", run_id)
        fired = self._change(site, run_id)
        self._judge(site, run_id, fired)
        return {
            "seed": self._seed,
            "waits": self._waits,
            "fired": len(fired),
            **self.differences.counts(),
            "figures": {name: each.form() for name, each in figures.items()},
            "kib_per_trigger": self._per_trigger(figures),
        }

    def _measured(self, site: Installation, what: str) -> Figures:
        [pid] = site.airflow.triggerer_pids()
        for _ in range(2):
            self._say(f"{what}, settling: {measure(pid, REST_S)}")
        figures = measure(pid, MEASURED_S)
        self._say(f"{what}: {figures}")
        return figures

    def _per_trigger(self, figures: dict[str, Figures]) -> dict[str, float]:
        """The memory of one more: of waits beside the first one, and of stock triggers beside none."""
        more = figures["waits"].uss_kib - figures["one wait"].uss_kib
        stock = figures["stock triggers"].uss_kib - figures["nothing"].uss_kib
        return {"wait": round(more / (self._waits - 1), 1), "stock": round(stock / self._waits, 1)}

    def _fresh_triggerer(self, site: Installation) -> None:
        site.airflow.stop_triggerer()
        site.airflow.start_triggerer()

    def _claimed(self, site: Installation, dag_id: str, run_id: str, task_id: str, count: int) -> None:
        site.until(
            f"{count} triggers of {dag_id} are taken by a triggerer",
            lambda: site.claimed(dag_id, run_id, task_id) >= count,
            180,
            every_s=3,
        )

    def _trigger(self, run_id: str, number: int) -> dict[str, Any]:
        """What EventSensor gives to its trigger."""
        first = event("ha.first", by="data.key", label="first")
        second = event("ha.second", by="data.key", label="second")
        now = datetime.now(UTC)
        return {
            "subscription": self._subscription(run_id, number),
            "condition": (first & second).to_json(),
            "key": f"k{number:04}",
            "since_ms": int((now - timedelta(hours=24)).timestamp() * 1000),
            "kafka_conn_id": "kafka_default",
            "bus": BUS,
            "deployment": DEPLOYMENT,
            "timeout_at": (now + timedelta(hours=2)).isoformat(),
            "resume_not_before": now.isoformat(),
        }

    def _subscription(self, run_id: str, number: int) -> str:
        return f"{DEPLOYMENT}/ha_held/{run_id}/wait/{number}"

    # -- 1 -> 3 -> 1

    def _change(self, site: Installation, run_id: str) -> list[int]:
        """The numbers of the waits that were met meanwhile."""
        site.api.size_pool("held", 8)
        emit(site.emitter, [half("first", number) for number in range(self._waits)])
        fired: list[int] = []
        self._fire(site, fired, "one triggerer")
        for _ in range(2):
            site.airflow.start_triggerer()
        self._fire(site, fired, "three triggerers")
        site.airflow.kill_triggerer()
        self._fire(site, fired, "the one with the waits was killed")
        # Its waits move after Airflow's threshold.
        self._settled(site, run_id, len(fired))
        site.airflow.stop_triggerer()
        self._fire(site, fired, "one triggerer again")
        self._settled(site, run_id, len(fired))
        time.sleep(15)  # for what should not come
        return fired

    def _fire(self, site: Installation, fired: list[int], state: str) -> None:
        self._say(f"{state}: {FIRED} waits are met")
        chosen = self._numbers[len(fired) : len(fired) + FIRED]
        for number in chosen:
            emit(site.emitter, [half("second", number)])
            time.sleep(0.2)
        fired += chosen

    def _settled(self, site: Installation, run_id: str, wanted: int) -> None:
        deadline = time.monotonic() + SETTLE_S
        while True:
            states = Counter(str(task["state"]) for task in site.tasks("ha_held", run_id, "wait"))
            self._say(f"waits: {dict(states)}")
            if states["success"] >= wanted or time.monotonic() > deadline:
                return
            time.sleep(5)

    def _judge(self, site: Installation, run_id: str, fired: list[int]) -> None:
        log = site.follower.snapshot()
        tasks = site.tasks("ha_held", run_id, "wait")
        ended = [task["map_index"] for task in tasks if task["state"] == "success"]
        outputs = {number: site.api.output("ha_held", run_id, "wait", number) for number in ended}
        waits = {
            number: Wait(
                self._subscription(run_id, number),
                frozenset({half("first", number).id, half("second", number).id}),
            )
            for number in range(self._waits)
        }
        sent = appended(record for records in log.kind("event") for record in records)
        told = actions(record for records in log.kind("action") for record in records)
        told = {name: found for name, found in told.items() if f"/{run_id}/" in name}
        self.differences = judge_waits(waits, sent, told, tasks, outputs)
        self.differences.missing += site.follower.lost
