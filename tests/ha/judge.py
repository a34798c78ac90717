"""Compares the REST API and the topics after a run with what is expected. Imports no engine.

Waits: each wait with both events appended has one firing, of these two events, decided after the later
append; its task acknowledged it once, in its first try, and ended in success with it as output (or is
`scheduled` with it, if no worker may run it). A wait with only one event is still deferred. No registration
is removed before its firing, which would lose half-met state. Dispatch: each event, however often it was
sent, has one firing and one successful run of the target.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from interlock.events.event import Event

from tests.chaos.log import Log, Rec, read_action, read_event, read_match, read_registrations

CLOCK_MS = 5  # tolerance: the broker's timestamp of an append differs a little from other clocks


@dataclass
class Differences:
    """What is wrong, as sentences."""

    missing: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        return {name: len(getattr(self, name)) for name in ("missing", "duplicated", "unexpected")}

    def add(self, other: Differences) -> None:
        for name, lines in vars(other).items():
            getattr(self, name).extend(lines)

    def lines(self) -> list[str]:
        return [f"{name}: {line}" for name, lines in vars(self).items() for line in lines]


@dataclass
class Action:
    """A firing in the action topic: its `fired` records, and how often it was acknowledged."""

    firing: Mapping[str, Any]
    fired: list[Rec] = field(default_factory=list)
    acked: int = 0

    def event_ids(self) -> frozenset[str]:
        return frozenset(str(e.get("id")) for events in self.firing["events"].values() for e in events)


@dataclass(frozen=True)
class Appended:
    """An event of the event topic, at its first append. All have one source."""

    event: Event
    at_ms: int


def appended(records: Iterable[Rec]) -> dict[str, Appended]:
    """The events by their id, each at its first append."""
    found: dict[str, Appended] = {}
    for record in records:
        event = read_event(record, listed=False)
        before = found.get(event.id)
        if before is None or record.timestamp_ms < before.at_ms:
            found[event.id] = Appended(event, record.timestamp_ms)
    return found


def actions(records: Iterable[Rec]) -> dict[str, dict[str, Action]]:
    """{subscription: {firing id: action}}."""
    found: dict[str, dict[str, Action]] = defaultdict(dict)
    for record in records:
        form = read_action(record)
        if form is None:
            continue
        firing = form["firing"]
        action = found[form["subscription"]].setdefault(firing["id"], Action(firing))
        if form["state"] == "fired":
            action.fired.append(record)
        elif form["state"] == "acked":
            action.acked += 1
    return dict(found)


@dataclass(frozen=True)
class Wait:
    """A waiting task: its subscription, and the ids of its events, some of which may never come."""

    subscription: str
    events: frozenset[str]


def judge_waits(
    waits: Mapping[int, Wait],
    sent: Mapping[str, Appended],
    by_subscription: Mapping[str, Mapping[str, Action]],
    tasks: Iterable[Mapping[str, Any]],
    outputs: Mapping[int, Any],
    done: str = "success",
) -> Differences:
    """Checks the waits. tasks: instances from the REST API. outputs: return values of succeeded tasks by map
    index.

    done: the expected state of a task with its firing; "scheduled" if no worker may run it: then outputs are
    what they were resumed with.
    """
    wrong = Differences()
    instances: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for task in tasks:
        instances[int(task["map_index"])].append(task)
    for number in sorted(instances.keys() - waits.keys()):
        wrong.unexpected.append(f"wait {number}: the run did not start this task")
    known = {wait.subscription for wait in waits.values()}
    wrong.unexpected += [f"{name}: a firing for no wait" for name in sorted(by_subscription.keys() - known)]
    for number, wait in waits.items():
        _judge_wait(
            wrong,
            number,
            wait,
            sent,
            by_subscription.get(wait.subscription, {}),
            instances[number],
            outputs,
            done,
        )
    return wrong


def _judge_wait(
    wrong: Differences,
    number: int,
    wait: Wait,
    sent: Mapping[str, Appended],
    firings: Mapping[str, Action],
    tasks: Sequence[Mapping[str, Any]],
    outputs: Mapping[int, Any],
    done: str,
) -> None:
    who = f"wait {number}"
    if len(tasks) != 1:
        (wrong.duplicated if tasks else wrong.missing).append(f"{who}: {len(tasks)} task instances")
        return
    state, tries = tasks[0]["state"], tasks[0]["try_number"]
    if tries != 1:
        wrong.duplicated.append(f"{who}: {tries} tries")
    if not wait.events <= sent.keys():
        if firings:
            wrong.unexpected.append(f"{who}: fired with half of its events")
        if state != "deferred":
            wrong.unexpected.append(f"{who}: is {state}, and its condition is not met")
        return
    if not firings:
        wrong.missing.append(f"{who}: no firing; the task is {state}")
        return
    fired = sum(len(action.fired) for action in firings.values())
    if fired != 1:
        wrong.duplicated.append(f"{who}: fired {fired} times, as {', '.join(sorted(firings))}")
    for firing_id, action in firings.items():
        if action.acked > 1:
            wrong.duplicated.append(f"{who}: acknowledged its firing {action.acked} times")
        if action.firing["outcome"] != "met" or action.event_ids() != wait.events:
            wrong.unexpected.append(
                f"{who}: fired {action.firing['outcome']} of {sorted(action.event_ids())}"
            )
        last = max(sent[each].at_ms for each in wait.events)
        if any(record.timestamp_ms < last - CLOCK_MS for record in action.fired):
            wrong.unexpected.append(f"{who}: {firing_id} was fired before its last event")
    if state != done:
        unfinished = state in (None, "deferred", "scheduled", "queued", "running")
        name = wrong.missing if unfinished else wrong.unexpected
        name.append(f"{who}: fired, and the task is {state}")
    elif (outputs.get(number) or {}).get("firing_id") not in firings:
        wrong.unexpected.append(f"{who}: has {outputs.get(number)!r}, which is no firing of its own")


def judge_registrations(
    waits: Mapping[int, Wait], log: Log, by_subscription: Mapping[str, Mapping[str, Action]]
) -> Differences:
    """Checks that each wait stayed registered until its firing was decided, or for ever without one."""
    wrong = Differences()
    removed_ms = {record.offset: record.timestamp_ms for rs in log.kind("subscription") for record in rs}
    ended: dict[str, list[int]] = defaultdict(list)
    known = set()
    for life in read_registrations(log).lives.values():
        known.add(life.subscription)
        if life.ended is not None:
            ended[life.subscription].append(removed_ms[life.ended])
    for number, wait in waits.items():
        if wait.subscription not in known:
            wrong.missing.append(f"wait {number}: was never registered")
        firings = by_subscription.get(wait.subscription, {}).values()
        fired_ms = min((r.timestamp_ms for a in firings for r in a.fired), default=math.inf)
        early = sum(at < fired_ms - CLOCK_MS for at in ended[wait.subscription])
        if early:
            wrong.unexpected.append(
                f"wait {number}: its registration was removed {early} times while it waited"
            )
    return wrong


def half_met(waits: Mapping[int, Wait], log: Log) -> int:
    """How many of the waits have matched at least one event, according to the trigger topic."""
    wanted = {wait.subscription for wait in waits.values()}
    ours = {x.incarnation for x in read_registrations(log).lives.values() if x.subscription in wanted}
    met = {t.incarnation for rs in log.kind("trigger") for r in rs for t in read_match(r).targets}
    return len(ours & met)


def judge_dispatch(
    subscription: str,
    orders: frozenset[str],
    sent: Mapping[str, Appended],
    by_subscription: Mapping[str, Mapping[str, Action]],
    runs: Iterable[Mapping[str, Any]],
) -> Differences:
    """Checks the dispatch. orders: ids of events that each start one run. runs: the target's, from the REST
    API.

    A run belongs to the event whose firing is in its conf.
    """
    wrong = Differences()
    fired: dict[str, list[Rec]] = defaultdict(list)
    of_firing: dict[str, str] = {}
    for firing_id, action in by_subscription.get(subscription, {}).items():
        ids = action.event_ids()
        if len(ids) != 1 or not ids <= orders:
            wrong.unexpected.append(f"dispatch: firing {firing_id} of {sorted(ids)}")
            continue
        [order] = ids
        of_firing[firing_id] = order
        fired[order] += action.fired
    started: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for run in runs:
        firing_id = firing_of_run(run)
        if firing_id is None or firing_id not in of_firing:
            wrong.unexpected.append(f"dispatch: run {run['dag_run_id']} belongs to no firing")
            continue
        started[of_firing[firing_id]].append(run)
    for order in sorted(orders):
        if order not in sent:
            wrong.missing.append(f"dispatch: {order} was never appended")
            continue
        if not fired[order]:
            wrong.missing.append(f"dispatch: {order} has no firing")
        elif len(fired[order]) > 1:
            wrong.duplicated.append(f"dispatch: {order} fired {len(fired[order])} times")
        if not started[order]:
            wrong.missing.append(f"dispatch: {order} has no run")
        elif len(started[order]) > 1:
            wrong.duplicated.append(f"dispatch: {order} has {len(started[order])} runs")
        for run in started[order]:
            if run["state"] in ("queued", "running"):
                wrong.missing.append(f"dispatch: the run of {order} is {run['state']}")
            elif run["state"] != "success":
                wrong.unexpected.append(f"dispatch: the run of {order} is {run['state']}")
    return wrong


def firing_of_run(run: Mapping[str, Any]) -> str | None:
    """The firing id in the conf of a dispatched run."""
    conf = run.get("conf") or {}
    found = conf.get("firing_id") or (conf.get("firing") or {}).get("firing_id")
    return None if found is None else str(found)


def milliseconds(text: str) -> float:
    """Airflow's time text as milliseconds since the epoch."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000


def spread(values: Sequence[float]) -> dict[str, float | int | None]:
    """Count, p50, p99 and the largest (nearest rank), rounded."""
    ordered = sorted(values)

    def rank(share: float) -> float | None:
        return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)]) if ordered else None

    return {"count": len(ordered), "p50": rank(0.5), "p99": rank(0.99), "max": rank(1.0)}


def away_from(at_ms: float, faults: Iterable[tuple[float, float]], away_ms: float) -> bool:
    """Whether a time is farther than `away_ms` from each fault, (begin, end) in ms."""
    return all(at_ms < begin - away_ms or at_ms > end + away_ms for begin, end in faults)
