"""The trigger of a dispatcher, with a fake runtime."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Connection
from interlock import event
from interlock.engine.bus import TopicPartition
from interlock.engine.errors import ConfigError
from interlock.engine.waiting.dispatching import MORE_FIRINGS
from interlock.engine.waiting.latest_firings import FiringRef
from interlock.engine.waiting.notices import Notice, NoticeBoard
from interlock.triggers import dispatch as module
from interlock.triggers import moments
from interlock.triggers.dispatch import DispatchTrigger

from tests.unit.triggers.connecting import GOOD, Connections, in_seconds

DURABLE = {
    "subscription": "airflow/dispatch/d", "condition": event("x").to_json(), "since_ms": 1,
    "since_given": False, "max_keys": 10, "at_limit": "dead-letter",
}  # fmt: skip
NOTHING = {"outcome": "renew", "places": [], "registered": True}


def a_trigger(**changes: Any) -> DispatchTrigger:
    kwargs = {
        "durable": DURABLE, "trigger_dag_id": "t", "max_runs_in_flight": 10, "kafka_conn_id": "kafka_default",
        "bus": "b", "deployment": "d", "resume_not_before": in_seconds(0), "renew_at": in_seconds(60),
    }  # fmt: skip
    return DispatchTrigger(**{**kwargs, **changes})


class Stage:
    """The runtime, its open firings, and how many runs of the target are in flight."""

    def __init__(self) -> None:
        self.board = NoticeBoard()
        self.waits = SimpleNamespace(dispatching=self)
        self.offsets: list[int] = []
        self.forgotten: set[tuple[int, int]] = set()
        self.in_flight: list[int] = [0]
        self.counted = 0
        self.opened: list[Any] = []
        self.closed = 0
        self.stream = SimpleNamespace(registered=True)
        self.looked = threading.Event()
        self.on_open: Callable[[Callable[[Any], None]], None] = lambda _: None
        self.on_full: Callable[[], None] = lambda: None

    # -- Dispatching

    def open(self, durable: Any, deliver: Callable[[Any], None]) -> Any:
        self.opened.append(durable)
        thread = threading.Thread(target=self.on_open, args=(deliver,))
        thread.start()
        return self.stream

    def take(self, stream: Any, most: int, without: Any = (), gone: Any = ()) -> list[FiringRef]:
        assert stream is self.stream
        self.forgotten.update(gone)
        source = TopicPartition("b-action", 0)
        places = [FiringRef("", source, n, 0) for n in self.offsets if (0, n) not in without][:most]
        self.looked.set()
        return places

    def close(self, stream: Any) -> None:
        self.closed += 1

    # -- Airflow

    async def runs_in_flight(self, dag_id: str) -> int:
        assert dag_id == "t"
        self.counted += 1
        if len(self.in_flight) > 1:
            self.on_full()
            return self.in_flight.pop(0)
        return self.in_flight[0]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage()
    monkeypatch.setattr("interlock.engine.runtime.runtime.Runtime.of", lambda *_: made)
    Connections(monkeypatch, GOOD)
    monkeypatch.setattr(module, "runs_in_flight", made.runs_in_flight)
    monkeypatch.setattr(module, "ROOM_S", 0.001)
    return made


def outcome(trigger: DispatchTrigger) -> Any:
    async def one() -> Any:
        return [event.payload async for event in trigger.run()]

    [payload] = asyncio.run(one())
    json.dumps(payload, allow_nan=False)
    return payload


def test_it_survives_serialization() -> None:
    trigger = a_trigger(held=[(0, 1)], gone=[[2, 3]])
    path, kwargs = trigger.serialize()
    assert path == f"{DispatchTrigger.__module__}.{DispatchTrigger.__name__}"
    assert DispatchTrigger(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)
    assert (kwargs["held"], kwargs["gone"]) == ([[0, 1]], [[2, 3]])


def test_open_firings_are_yielded_as_places(stage: Stage) -> None:
    stage.offsets = [4, 7]
    assert outcome(a_trigger()) == {"outcome": "fired", "places": [(0, 4), (0, 7)], "registered": True}
    [durable] = stage.opened
    assert durable.subscription == "airflow/dispatch/d"
    assert stage.closed == 1


def test_later_firings_are_yielded_when_they_come(stage: Stage) -> None:
    def come(deliver: Callable[[Any], None]) -> None:
        deliver(MORE_FIRINGS)  # registered, without firings
        stage.offsets = [9]
        deliver(MORE_FIRINGS)

    stage.on_open = come
    assert outcome(a_trigger())["places"] == [(0, 9)]


def test_the_number_of_firings_is_limited_by_the_targets_room_and_by_a_pass(stage: Stage) -> None:
    stage.offsets = list(range(1000))
    stage.in_flight = [7]
    assert len(outcome(a_trigger())["places"]) == 3
    stage.in_flight = [0]
    payload = outcome(a_trigger(max_runs_in_flight=5000))
    assert len(payload["places"]) == 500
    assert len(json.dumps(payload)) < 8000


def test_firings_wait_while_the_target_has_no_room(stage: Stage) -> None:
    stage.offsets = [1]
    stage.in_flight = [10, 12, 9]
    assert outcome(a_trigger())["places"] == [(0, 1)]
    assert stage.in_flight == [9]


def test_at_renew_at_it_yields_no_places(stage: Stage) -> None:
    assert outcome(a_trigger(renew_at=in_seconds(0.05))) == NOTHING
    stage.offsets, stage.in_flight = [1], [10]
    assert outcome(a_trigger(renew_at=in_seconds(0.05))) == NOTHING
    assert stage.closed == 2


def test_a_late_start_still_yields_open_firings(stage: Stage) -> None:
    stage.offsets = [1]
    assert outcome(a_trigger(renew_at=in_seconds(-5)))["places"] == [(0, 1)]


def test_nothing_is_yielded_before_resume_not_before(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    stage.offsets = [1]
    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    outcome(a_trigger(resume_not_before=in_seconds(50)))
    assert 45 < max(slept) <= 50


def test_held_and_gone_firings_are_excluded_and_gone_ones_are_forgotten(stage: Stage) -> None:
    stage.offsets = [1, 2, 3]
    assert outcome(a_trigger(held=[[0, 1]], gone=[[0, 2]]))["places"] == [(0, 3)]
    assert stage.forgotten == {(0, 2)}


def test_problems_of_the_bus_are_logged_and_it_keeps_waiting(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    def come(deliver: Callable[[Any], None]) -> None:
        deliver(Notice("The broker is away."))
        deliver(Notice(None))
        assert stage.looked.wait(30)  # with a firing it would not wait
        stage.offsets = [1]
        deliver(MORE_FIRINGS)

    stage.on_open = come
    trigger = a_trigger()
    monkeypatch.setattr(trigger.log, "warning", lambda text, *values: lines.append(text % values))
    assert outcome(trigger)["places"] == [(0, 1)]
    assert lines == ["The broker is away. The trigger keeps waiting."]


def test_problems_of_the_bus_are_logged_also_while_the_target_is_full(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was logged, and no corrected connection read, until a run of the target ended."""
    stage.offsets, stage.in_flight = [1], [10]
    monkeypatch.setattr(module, "ROOM_S", 60.0)

    def come(deliver: Callable[[Any], None]) -> None:
        deliver(MORE_FIRINGS)
        deliver(Notice("The broker is away."))

    async def until_logged() -> str:
        logged: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        stage.on_open = come
        trigger = a_trigger()
        monkeypatch.setattr(trigger.log, "warning", lambda text, *values: logged.set_result(text % values))
        task = asyncio.ensure_future(anext(trigger.run()))
        try:
            async with asyncio.timeout(30):
                return await logged
        finally:
            task.cancel()

    assert asyncio.run(until_logged()) == "The broker is away. The trigger keeps waiting."
    assert stage.counted == 1, "a firing that comes makes no room"


def test_its_event_says_if_nothing_was_registered(stage: Stage) -> None:
    stage.stream.registered = False
    assert outcome(a_trigger(renew_at=in_seconds(0.05))) == {**NOTHING, "registered": False}


def test_an_unreadable_connection_is_read_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.offsets = [1]
    away = OSError("the backend is away\nERROR forged")
    Connections(monkeypatch, away, away, GOOD)
    trigger, lines = a_trigger(), list[str]()
    monkeypatch.setattr(trigger.log, "warning", lambda text, *values: lines.append(text % values))
    assert outcome(trigger)["places"] == [(0, 1)]
    [line] = lines
    assert r"Connection 'kafka_default' cannot be read: the backend is away\nERROR forged" in line


def test_with_an_unreadable_connection_it_ends_at_renew_at_without_a_registration(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resumed task reads the connection too, and fails with the reason."""
    monkeypatch.setattr(moments, "READ_S", 0.1)
    Connections(monkeypatch, KeyError("not there"))
    assert outcome(a_trigger(renew_at=in_seconds(0))) == {**NOTHING, "registered": False}
    assert stage.opened == []


def test_an_unusable_connection_fails_the_task_and_is_named(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    Connections(monkeypatch, Connection(conn_id="kafka_default", conn_type="http"))
    with pytest.raises(ConfigError, match="'kafka_default' has type 'http'"):
        outcome(a_trigger())
