"""The judge of `make ha` detects differences: each test plants one in a correct record."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from interlock.conditions import event as matcher

from tests.chaos.log import Log, Rec
from tests.chaos.processes import ROOT
from tests.ha.judge import (
    Differences,
    Wait,
    actions,
    appended,
    away_from,
    half_met,
    judge_dispatch,
    judge_registrations,
    judge_waits,
    spread,
)

NAME = "ha/ha_waits/run/wait/0"
BOTH = ("first", "second")
WAIT = Wait(NAME, frozenset(BOTH))
NONE = {"missing": 0, "duplicated": 0, "unexpected": 0}


def event(event_id: str, at_ms: int, offset: int = 0) -> Rec:
    headers = {"ce_specversion": "1.0", "ce_id": event_id, "ce_source": "/ha", "ce_type": "ha.first"}
    coded = tuple((name, value.encode()) for name, value in headers.items())
    return Rec("ha-event", 0, offset, at_ms, None, None, coded)


def action(firing_id: str, at_ms: int, ids: tuple[str, ...], state: str = "fired", **changed: Any) -> Rec:
    firing = {"id": firing_id, "outcome": "met", "events": {"all": [{"id": each} for each in ids]}} | changed
    form = {"v": 1, "subscription": changed.pop("subscription", NAME), "state": state, "firing": firing}
    return Rec("ha-action", 0, 0, at_ms, firing_id.encode(), json.dumps(form).encode())


class Record:
    """A correct run of one wait, to be changed by a test."""

    def __init__(self) -> None:
        self.events = [event("first", 1000), event("second", 2000, 1)]
        self.actions = [action("f1", 2010, BOTH), action("f1", 3000, BOTH, "acked")]
        self.tasks = [{"map_index": 0, "state": "success", "try_number": 1}]
        self.outputs: dict[int, Any] = {0: {"firing_id": "f1"}}

    def judged(self, done: str = "success") -> Differences:
        sent, fired = appended(self.events), actions(self.actions)
        return judge_waits({0: WAIT}, sent, fired, self.tasks, copy.copy(self.outputs), done)


@pytest.fixture
def record() -> Record:
    return Record()


def test_a_correct_run_has_no_differences(record: Record) -> None:
    assert record.judged().lines() == []


def test_an_event_sent_again_counts_from_its_first_append(record: Record) -> None:
    record.events.append(event("second", 9000, 2))
    assert appended(record.events)["second"].at_ms == 2000
    assert record.judged().lines() == []


def task_is(**changes: Any) -> Callable[[Record], None]:
    return lambda record: record.tasks[0].update(changes)


def fires(at_ms: int, ids: tuple[str, ...] = BOTH, **changes: Any) -> Callable[[Record], None]:
    """Replaces the firing that was decided."""
    return lambda record: record.actions.__setitem__(0, action("f1", at_ms, ids, **changes))


def also(*records: Rec) -> Callable[[Record], None]:
    return lambda record: record.actions.extend(records)


STRANGER = {"map_index": 7, "state": "success", "try_number": 1}
# {what differs: (how to plant it, how the judge counts it)}
PLANTED = {
    "met, and no firing": (lambda record: record.actions.clear(), "missing"),
    **{f"fired, and the task is {state}": (task_is(state=state), "missing")
       for state in ("deferred", "scheduled", "queued", "running")},
    "fired, and the task failed": (task_is(state="failed"), "unexpected"),
    "a second firing": (also(action("f2", 2020, BOTH)), "duplicated"),
    "the same firing decided twice": (also(action("f1", 2010, BOTH)), "duplicated"),
    "a firing taken twice": (also(action("f1", 3000, BOTH, "acked")), "duplicated"),
    "a second try": (task_is(try_number=2), "duplicated"),
    "a firing of other events": (fires(2010, ("first", "other")), "unexpected"),
    "a firing before its last event": (fires(1500), "unexpected"),
    "an expiry": (fires(2010, outcome="expired"), "unexpected"),
    "an output of another firing": (
        lambda record: record.outputs.update({0: {"firing_id": "f9"}}), "unexpected"),
    "a firing of an unknown subscription": (
        also(action("f3", 2010, ("first",), subscription="ha/elsewhere")), "unexpected"),
    "an unknown task instance": (lambda record: record.tasks.append(STRANGER), "unexpected"),
    "no task instance": (lambda record: record.tasks.clear(), "missing"),
    "two task instances": (lambda record: record.tasks.append(record.tasks[0]), "duplicated"),
}  # fmt: skip


@pytest.mark.parametrize(("plant", "kind"), PLANTED.values(), ids=PLANTED)
def test_a_planted_difference_is_counted(
    record: Record, plant: Callable[[Record], object], kind: str
) -> None:
    plant(record)
    assert record.judged().counts() == NONE | {kind: 1}


def test_a_wait_with_half_of_its_events_stays_deferred(record: Record) -> None:
    record.events.pop()
    record.actions, record.outputs = [], {}
    record.tasks[0]["state"] = "deferred"
    assert record.judged().lines() == []
    record.tasks[0]["state"] = "failed"
    assert record.judged().counts()["unexpected"] == 1


def test_a_wait_with_half_of_its_events_that_fired_is_unexpected(record: Record) -> None:
    record.events.pop()
    assert record.judged().counts()["unexpected"] == 2


def run(firing: str, run_id: str = "r1", state: str = "success") -> dict[str, Any]:
    return {"dag_run_id": run_id, "state": state, "conf": {"firing_id": firing}}


def dispatched(fired: list[Rec], runs: list[dict[str, Any]]) -> dict[str, int]:
    sent = appended([event("order", 1000)])
    return judge_dispatch(NAME, frozenset({"order"}), sent, actions(fired), runs).counts()


@pytest.mark.parametrize(
    ("fired", "runs", "wrong"),
    [
        (["f1"], [run("f1")], {}),
        ([], [], {"missing": 2}),
        (["f1"], [], {"missing": 1}),
        (["f1"], [run("f1", state="queued")], {"missing": 1}),
        (["f1"], [run("f1", state="failed")], {"unexpected": 1}),
        (["f1"], [run("f1"), run("f1", "r2")], {"duplicated": 1}),
        (["f1", "f2"], [run("f1")], {"duplicated": 1}),
        (["f1"], [run("f1"), run("f7", "r2")], {"unexpected": 1}),
    ],
)
def test_a_dispatch_starts_one_run_for_each_event(
    fired: list[str], runs: list[dict[str, Any]], wrong: dict[str, int]
) -> None:
    assert dispatched([action(each, 1010, ("order",)) for each in fired], runs) == NONE | wrong


def test_times_within_a_minute_of_a_fault_are_not_measured() -> None:
    faults = [(100_000.0, 105_000.0)]
    measured = [at for at in (30_000, 45_000, 102_000, 160_000, 166_000) if away_from(at, faults, 60_000)]
    assert measured == [30_000, 166_000]


def test_percentiles_take_the_nearest_rank() -> None:
    assert spread([float(n) for n in range(1, 101)]) == {"count": 100, "p50": 50, "p99": 99, "max": 100}
    assert spread([])["p50"] is None


def test_the_judge_imports_no_engine() -> None:
    code = "import sys, tests.ha.judge; sys.exit(any(m.startswith('interlock.engine') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_a_dispatched_firing_of_other_events_is_unexpected() -> None:
    fired = [action("f1", 1010, ("order",)), action("f2", 1010, ("order", "other"))]
    assert dispatched(fired, [run("f1")])["unexpected"] == 1


def test_an_order_that_was_never_appended_is_missing() -> None:
    wrong = judge_dispatch(NAME, frozenset({"order"}), {}, {}, [])
    assert wrong.counts()["missing"] == 1


def test_a_task_that_no_worker_may_run_is_scheduled_with_its_firing(record: Record) -> None:
    record.actions.pop()
    record.tasks[0]["state"] = "scheduled"
    assert record.judged("scheduled").counts() == NONE
    record.outputs[0] = {"next_method": "__fail__", "event": None}
    assert record.judged("scheduled").counts()["unexpected"] == 1
    record.tasks[0]["state"] = "deferred"
    assert record.judged("scheduled").counts()["missing"] == 1
    record.tasks[0]["state"] = "failed"
    assert record.judged("scheduled").counts()["unexpected"] == 1


def registry(*entries: tuple[str, int, str | None]) -> Log:
    """A registry with a record for each (incarnation, time, subscription), None for a removal."""
    log = Log("ha")
    for offset, (incarnation, at_ms, subscription) in enumerate(entries):
        form = {
            "v": 1,
            "subscription": subscription,
            "kind": "one-shot",
            "incarnation": incarnation,
            "condition": matcher("ha.first").to_json(),
            "key": "k",
            "since_ms": 0,
        }
        value = json.dumps(form).encode() if subscription else None
        log.add(Rec("ha-subscription", 0, offset, at_ms, f"{incarnation}:n".encode(), value))
    return log


@pytest.mark.parametrize(
    ("entries", "wrong"),
    [
        ([("i", 500, NAME), ("i", 3000, None)], {}),  # acknowledged after its firing of 2010
        ([("i", 500, NAME)], {}),
        ([], {"missing": 1}),
        ([("i", 500, NAME), ("i", 1500, None), ("i", 1600, NAME)], {"unexpected": 1}),
        ([("i", 500, NAME), ("j", 1500, NAME)], {"unexpected": 1}),
        ([("i", 500, "other"), ("i", 1500, None), ("j", 500, NAME)], {}),
    ],
)
def test_a_registration_stays_until_its_firing(
    record: Record, entries: list[tuple[str, int, str | None]], wrong: dict[str, int]
) -> None:
    judged = judge_registrations({0: WAIT}, registry(*entries), actions(record.actions))
    assert judged.counts() == NONE | wrong


def test_a_registration_of_a_wait_that_never_fired_stays_for_ever() -> None:
    log = registry(("i", 500, NAME), ("i", 99_000, None))
    assert judge_registrations({0: WAIT}, log, {}).counts()["unexpected"] == 1


def test_waits_are_half_met_when_the_trigger_topic_names_them() -> None:
    log = registry(("i", 500, NAME), ("j", 500, "other"))
    assert half_met({0: WAIT}, log) == 0
    for incarnation in ("j", "i", "i"):
        attributes = {"specversion": "1.0", "id": "first", "source": "/ha", "type": "ha.first"}
        match = [1, "ha-event", 0, 0, 1000, [attributes, b"{}"], [[0, incarnation, [0], "k"]], "topic id"]
        log.add(Rec("ha-trigger", 0, 0, 1010, None, msgspec.msgpack.encode(match)))
    assert half_met({0: WAIT}, log) == 1


def test_differences_are_added_each_to_its_kind() -> None:
    wrong = Differences(missing=["a"])
    wrong.add(Differences(missing=["b"], unexpected=["c"]))
    assert wrong.lines() == ["missing: a", "missing: b", "unexpected: c"]
