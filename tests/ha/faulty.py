"""The run of `make ha`: waits, a dispatch and faults; then the verdict and the latencies."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from interlock.events import EmitError, Emitter, Event

from .aims import FLOOR, judged
from .faults import Faults
from .installation import DEPLOYMENT, Installation, Say
from .judge import (
    Differences,
    Wait,
    actions,
    appended,
    away_from,
    judge_dispatch,
    judge_registrations,
    judge_waits,
    milliseconds,
    spread,
)
from .plan import AWAY_S, Order, Plan, Second, plan

SOURCE = "/ha"
SILENT = 5  # waits that get only one of their events
# From the choice of the stock triggers' times to the load. Deferring them took 51 s on a busy machine; and a
# wait that was deferred just before its event is kept for min_heartbeat_interval + 5 s (ADR 6).
LEAD_S = 75.0
DEFERRED_S, SETTLE_S = 600.0, 240.0


def half(kind: str, wait: int) -> Event:
    key = f"k{wait:04}"
    return Event.of(f"ha.{kind}", SOURCE, id=f"{kind}-{key}", subject=key, data={"key": key})


def order(number: int) -> Event:
    key = f"o{number:04}"
    return Event.of("ha.order", SOURCE, id=f"order-{key}", subject=key, data={"key": key})


def emit(emitter: Emitter, events: Iterable[Event]) -> None:
    """Emits events until all are acknowledged; repeats have the same identity."""
    left, tries = list(events), 0
    while left:
        try:
            emitter.emit_all(left, timeout_s=10)
            return
        except EmitError as e:
            again = set(e.undelivered)
            left, tries = [event for event in left if (event.source, event.id) in again], tries + 1
            if tries > 6 or not left:
                raise


class Load(threading.Thread):
    """Emits the plan's events at their times after `began`."""

    def __init__(self, emitter: Emitter, planned: Plan) -> None:
        super().__init__(name="load", daemon=True)
        self._emitter, self._plan = emitter, planned
        self.began = time.monotonic()
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            for each in self._plan.events:
                time.sleep(max(0.0, self.began + each.at_s - time.monotonic()))
                emit(self._emitter, [_event(each)])
        except BaseException as e:
            self.failed = e


def _event(each: Second | Order) -> Event:
    return half("second", each.wait) if isinstance(each, Second) else order(each.order)


class Run:
    """One run. `execute` returns the result to print; `differences`: what is wrong."""

    def __init__(
        self,
        folder: Path,
        say: Say,
        *,
        waits: int,
        orders: int,
        calm_s: float,
        seed: int,
        away_s: float = AWAY_S,
        triggerers: int = 2,
    ) -> None:
        self._folder, self._say, self._triggerers = folder, say, triggerers
        self._waits, self._orders, self._seed, self._away_s = waits, orders, seed, away_s
        self._plan = plan(waits, orders, calm_s, seed, away_s, triggerers)
        self.differences = Differences()

    def execute(self) -> dict[str, Any]:
        waits, floors = self._waits + SILENT, len(self._plan.floors)
        with Installation(
            self._folder, self._say, triggerers=self._triggerers, waits=waits, floors=floors
        ) as site:
            return self._in(site)

    def _in(self, site: Installation) -> dict[str, Any]:
        started = time.monotonic()
        everyone = range(self._waits + SILENT)
        dags = ["ha_waits", "ha_floor", *(["ha_dispatch", "ha_target"] if self._orders else [])]
        site.api.wait_for_dags(*dags, timeout_s=120)
        emit(site.emitter, [half("first", n) for n in everyone if n % 2])
        if self._orders:
            site.api.unpause("ha_target")
            site.api.unpause("ha_dispatch")
        site.api.unpause("ha_waits")
        waiting = site.api.trigger("ha_waits")

        def deferred() -> bool:
            states = Counter(str(task["state"]) for task in site.tasks("ha_waits", waiting, "wait"))
            self._say(f"waits: {dict(states)}")
            if states["failed"]:
                raise RuntimeError("a wait failed before the run began")
            return states["deferred"] == len(everyone)

        site.until("all waits are deferred", deferred, DEFERRED_S, every_s=5)
        self._say(f"all waits are deferred after {time.monotonic() - started:.0f} s")
        emit(site.emitter, [half("first", n) for n in everyone if not n % 2])
        moments: list[datetime] = []

        def kwargs(_: str, number: int) -> dict[str, Any]:
            if not moments:  # chosen late: the scheduler may take long to expand the task
                begins = datetime.now(UTC) + timedelta(seconds=LEAD_S)
                moments.extend(begins + timedelta(seconds=at) for at in self._plan.floors)
            return {"moment": moments[number].isoformat()}

        floor = site.hold("ha_floor", "floor", "ha_floor.Floor", len(self._plan.floors), kwargs)
        load = Load(site.emitter, self._plan)
        begins = moments[0] - timedelta(seconds=self._plan.floors[0])
        wait_s = (begins - datetime.now(UTC)).total_seconds()
        if wait_s < 0:
            raise RuntimeError(f"the stock triggers were deferred {-wait_s:.0f} s too late for their times")
        time.sleep(wait_s)
        load.began = time.monotonic()
        load.start()
        self._say("the load begins")
        faults = Faults(site, self._say, self._plan, waiting, target=bool(self._orders))
        faults.run(load.began)
        load.join()
        if load.failed:
            raise load.failed
        self._say("the load is over")
        self._settle(site, waiting)
        return self._judge(site, waiting, floor, moments, faults)

    # -- the verdict

    def _settle(self, site: Installation, waiting: str) -> None:
        """Waits until all expected results are in or the time is over; then the verdict says what is
        missing."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            tasks = Counter(str(task["state"]) for task in site.tasks("ha_waits", waiting, "wait"))
            runs = (
                Counter(str(run["state"]) for run in site.api.all_runs("ha_target")) if self._orders else {}
            )
            self._say(f"waits: {dict(tasks)}; target: {dict(runs)}")
            site.airflow.processes.check()
            done = tasks["deferred"] == SILENT and tasks["success"] + tasks["failed"] == self._waits
            if (
                done
                and sum(runs.values()) >= self._orders
                and not runs.get("queued")
                and not runs.get("running")
            ):
                break
            if time.monotonic() > deadline:
                self._say(f"not settled after {SETTLE_S:.0f} s")
                break
            time.sleep(5)
        time.sleep(15)  # watch for unexpected firings

    def _judge(
        self, site: Installation, waiting: str, floor: str, moments: list[datetime], faults: Faults
    ) -> dict[str, Any]:
        log, unread = site.record()
        sent = appended(record for records in log.kind("event") for record in records)
        by_subscription = actions(record for records in log.kind("action") for record in records)
        tasks = site.tasks("ha_waits", waiting, "wait")
        ended = [task["map_index"] for task in tasks if task["state"] == "success"]
        outputs = {number: site.api.output("ha_waits", waiting, "wait", number) for number in ended}
        waits = {
            number: Wait(
                f"{DEPLOYMENT}/ha_waits/{waiting}/wait/{number}",
                frozenset({half("first", number).id, half("second", number).id}),
            )
            for number in range(self._waits + SILENT)
        }
        dispatched = {name: found for name, found in by_subscription.items() if "ha_dispatch" in name}
        ours = {name: found for name, found in by_subscription.items() if name not in dispatched}
        wrong = judge_waits(waits, sent, ours, tasks, outputs)
        if self._orders:
            runs = site.api.all_runs("ha_target")
            orders = frozenset(order(number).id for number in range(self._orders))
            if len(dispatched) > 1:
                wrong.unexpected.append(f"dispatch: several subscriptions, {sorted(dispatched)}")
            name = next(iter(dispatched), "ha_dispatch")
            wrong.add(judge_dispatch(name, orders, sent, dispatched, runs))
        wrong.add(judge_registrations(waits, log, ours))
        wrong.missing += unread
        if faults.happened["continue the triggerer"] and not faults.moved:
            wrong.missing.append("no wait moved from the stopped triggerer: the fault had no effect")
        self.differences = wrong
        done_ms = {
            number: max(sent[each].at_ms for each in wait.events)
            for number, wait in waits.items()
            if wait.events <= sent.keys()
        }
        left_ms = {
            number: milliseconds(task["scheduled_when"]) - done_ms[number]
            for task in tasks
            if (number := task["map_index"]) in done_ms
            and task["scheduled_when"]
            and task["state"] != "deferred"
        }
        decided_ms = {
            number: action.fired[0].timestamp_ms - done_ms[number]
            for number in done_ms
            for action in ours.get(waits[number].subscription, {}).values()
            if action.fired
        }
        away = {number for number, at in done_ms.items() if away_from(at, faults.times, self._away_s * 1000)}
        calm = [took for number, took in left_ms.items() if number in away]
        floors = self._floors(site, floor, moments)
        details = {"faults": faults.times, "done": done_ms, "decided": decided_ms, "left": left_ms}
        details["floors"] = list(zip([m.timestamp() * 1000 for m in moments], floors, strict=True))
        (self._folder / "latencies.json").write_text(json.dumps(details))
        floors_away = [
            took
            for moment, took in zip(moments, floors, strict=True)
            if took is not None and away_from(moment.timestamp() * 1000, faults.times, self._away_s * 1000)
        ]
        return {
            "seed": self._seed,
            "triggerers": self._triggerers,
            "waits": self._waits,
            "silent_waits": SILENT,
            "firings_dispatched": self._orders,
            "events": sum(len(records) for records in log.kind("event")),
            "faults": dict(faults.happened),
            "moved_from_the_stopped": faults.moved,
            "waits_of_triggerers": [asdict(each) for each in faults.wait_counts],
            **wrong.counts(),
            "left_deferred_ms": spread(calm),
            "floor_ms": spread(floors_away),
            **judged("ratio_p50", _ratio(calm, floors_away), FLOOR),
            "decided_ms": spread([took for number, took in decided_ms.items() if number in away]),
            "left_deferred_near_faults_ms": spread(
                [took for number, took in left_ms.items() if number not in away]
            ),
            "unacknowledged": sum(not action.acked for found in ours.values() for action in found.values()),
        }

    def _floors(self, site: Installation, run_id: str, moments: list[datetime]) -> list[float | None]:
        """How late each stock trigger's task left `deferred`, in ms; None if it did not."""
        found: list[float | None] = [None] * len(moments)
        for task in site.tasks("ha_floor", run_id, "floor"):
            number = task["map_index"]
            if task["state"] == "deferred":
                self._say(f"stock trigger {number} is still deferred")
            else:
                found[number] = milliseconds(task["scheduled_when"]) - moments[number].timestamp() * 1000
        return found


def _ratio(values: list[float], floors: list[float]) -> float | None:
    return round(median(values) / median(floors), 3) if values and floors else None
