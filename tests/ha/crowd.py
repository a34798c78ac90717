"""The cost of many deferred tasks for one triggerer: stock triggers or waits.

Their pool has no slots: tasks that leave `deferred` stay `scheduled`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median, stdev
from typing import Any

from interlock.conditions import event

from .aims import FLOOR, JUDGED_FROM, KIB_PER_WAIT, PER_WAIT, Aim, judged
from .faulty import half
from .installation import BUS, DEPLOYMENT, Installation, Say
from .judge import Wait
from .measure import Figures, measure

WINDOW_S, WINDOWS, REST_S = 8.0, 5, 15.0
CLAIM_S = 180.0
# Each of the three triggerers before it gets tasks.
NOTHING = ("nothing", "nothing before one wait", "nothing before the waits")
COSTS = {
    "kib_per_wait": KIB_PER_WAIT,
    "threads_per_wait": PER_WAIT,
    "clients_per_wait": PER_WAIT,
    "ratio_idle_cpu": FLOOR,
}


@dataclass(frozen=True)
class Tasks:
    """The instances of one mapped task in one run."""

    dag_id: str
    run_id: str
    task_id: str


class Crowd:
    """`size` tasks in an installation with one triggerer, whose DAGs have that many."""

    def __init__(self, site: Installation, say: Say, size: int) -> None:
        self._site, self._say, self._size = site, say, size
        self.figures: dict[str, Figures] = {}

    def measure_all(self, moment: Callable[[], datetime], stock_measured: Callable[[Tasks], None]) -> Tasks:
        """Measures the triggerer with no task, one and all stock triggers, one and all waits; returns the
        waits.

        moment: returns the time when the stock triggers yield; called just before they are created.
        stock_measured: called after they were measured, before they are removed. One wait and all waits each
        have a new triggerer, which is measured without tasks first.
        """
        self._measure(NOTHING[0])
        first = self._stock(1, lambda: datetime.now(UTC) + timedelta(days=1))
        self._measure("one stock trigger")
        self._site.api.end_run(first.dag_id, first.run_id)
        stock = self._stock(self._size, moment)
        self._measure("stock triggers")
        stock_measured(stock)
        self._site.api.end_run(stock.dag_id, stock.run_id)
        self._fresh_triggerer()
        self._measure(NOTHING[1])
        one = self._waits(1)
        self._measure("one wait")
        self._site.api.end_run(one.dag_id, one.run_id)
        self._fresh_triggerer()
        self._measure(NOTHING[2])
        waits = self._waits(self._size)
        self._measure("waits")
        return waits

    def form(self) -> dict[str, Any]:
        """The measured figures and their costs, for the result to print."""
        figures = {name: each.form() for name, each in self.figures.items()}
        return {"figures": figures, **costs(self.figures, self._size)}

    def expected(self, waits: Tasks) -> dict[int, Wait]:
        """{map index: expected wait}, for the judge."""
        return {
            number: Wait(
                _subscription(waits.run_id, number),
                frozenset({half("first", number).id, half("second", number).id}),
            )
            for number in range(self._size)
        }

    def _stock(self, count: int, moment: Callable[[], datetime]) -> Tasks:
        at: list[str] = []  # one for all

        def kwargs(_: str, number: int) -> dict[str, Any]:
            if not at:
                at.append(moment().isoformat())
            return {"moment": at[0]}

        run_id = self._site.hold("ha_floor", "floor", "ha_floor.Floor", count, kwargs)
        return self._taken(Tasks("ha_floor", run_id, "floor"), count)

    def _waits(self, count: int) -> Tasks:
        run_id = self._site.hold(
            "ha_held", "wait", "interlock.triggers.event.EventTrigger", count, _trigger_kwargs
        )
        return self._taken(Tasks("ha_held", run_id, "wait"), count)

    def _taken(self, tasks: Tasks, count: int) -> Tasks:
        self._site.until(
            f"{count} triggers of {tasks.dag_id} are taken by a triggerer",
            lambda: len(self._site.places(tasks.dag_id, tasks.run_id, tasks.task_id)) >= count,
            CLAIM_S,
            every_s=3,
        )
        return tasks

    def _measure(self, what: str) -> None:
        [pid] = self._site.airflow.triggerer_pids()
        for _ in range(2):
            self._say(f"{what}, settling: {measure(pid, REST_S)}")
        self.figures[what] = measure(pid, WINDOW_S, WINDOWS)
        self._say(f"{what}: {self.figures[what]}")
        if what in NOTHING and self.figures[what].kafka_clients:
            raise RuntimeError(f"a triggerer without tasks has Kafka clients: {self.figures[what]}")

    def _fresh_triggerer(self) -> None:
        self._site.airflow.stop_triggerer()
        self._site.airflow.start_triggerer()


def costs(figures: Mapping[str, Figures], size: int) -> dict[str, Any]:
    """The cost of each task after the first one, and processor time: waits against stock triggers and no
    tasks.

    idle_cpu_over_nothing: in percent of a core. Its aim is noise: two standard deviations of the windows of
    triggerers that have nothing. It fails no run, since it includes the engine, which the first wait starts;
    idle_cpu_over_one_wait does not.
    Judged from JUDGED_FROM waits on; a figure is None if one of its states was not measured.
    """
    one, all_ = figures.get("one wait"), figures.get("waits")
    one_stock, stock = figures.get("one stock trigger"), figures.get("stock triggers")
    more = max(1, size - 1)
    result: dict[str, float | None] = dict.fromkeys(COSTS)
    if one and all_:
        result["kib_per_wait"] = round((all_.uss_kib - one.uss_kib) / more, 1)
        # In whole hundredths: a few threads of a shared pool are not a cost of each wait.
        result["threads_per_wait"] = int(100 * (all_.threads - one.threads) / more) / 100
        result["clients_per_wait"] = int(100 * (all_.kafka_clients - one.kafka_clients) / more) / 100
    if all_ and stock and stock.cpu_percent:
        result["ratio_idle_cpu"] = round(all_.cpu_percent / stock.cpu_percent, 3)
    idle = [window for name in NOTHING if name in figures for window in figures[name].cpu_windows]
    result["idle_cpu_over_nothing"] = round(all_.cpu_percent - median(idle), 1) if all_ and idle else None
    noise = Aim(round(2 * stdev(idle), 1) if len(idle) > 1 else 0.0, math.inf)
    form: dict[str, Any] = {}
    for name, aim in (COSTS | {"idle_cpu_over_nothing": noise}).items():
        form |= judged(name, result[name], aim) if size >= JUDGED_FROM else {name: result[name]}
    if one and all_:
        form["idle_cpu_over_one_wait"] = round(all_.cpu_percent - one.cpu_percent, 1)
    if one_stock and stock:
        form["kib_per_stock_trigger"] = round((stock.uss_kib - one_stock.uss_kib) / more, 1)
    return form


def _trigger_kwargs(run_id: str, number: int) -> dict[str, Any]:
    """The arguments that EventSensor passes to its trigger."""
    first = event("ha.first", by="data.key", label="first")
    second = event("ha.second", by="data.key", label="second")
    now = datetime.now(UTC)
    return {
        "subscription": _subscription(run_id, number),
        "condition": (first & second).to_json(),
        "key": f"k{number:04}",
        "since_ms": int((now - timedelta(hours=24)).timestamp() * 1000),
        "kafka_conn_id": "kafka_default",
        "bus": BUS,
        "deployment": DEPLOYMENT,
        "timeout_at": (now + timedelta(hours=2)).isoformat(),
        "resume_not_before": now.isoformat(),
    }


def _subscription(run_id: str, number: int) -> str:
    return f"{DEPLOYMENT}/ha_held/{run_id}/wait/{number}"
