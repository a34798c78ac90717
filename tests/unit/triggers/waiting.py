"""A trigger of a wait, and a runtime whose waits deliver from another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from interlock import event
from interlock.engine.records import ActionRecord, FiringRecord, Registration
from interlock.engine.waiting.waits import FiringForWait, Wait
from interlock.triggers.event import EventTrigger

from tests.unit.triggers.connecting import GOOD, Connections

CONDITION = event("x")


def a_trigger(**changes: Any) -> EventTrigger:
    kwargs = {
        "subscription": "airflow/dag/run/task", "condition": CONDITION.to_json(), "key": None, "since_ms": 17,
        "kafka_conn_id": "kafka_default", "bus": "b", "deployment": "d", "timeout_at": None,
    }  # fmt: skip
    trigger = EventTrigger(**{**kwargs, **changes})
    trigger._task_instance = task_instance()  # a triggerer sets it, dag.test() does not
    return trigger


def task_instance(map_index: int = -1) -> Any:
    return SimpleNamespace(dag_id="dag", run_id="run", task_id="wait", map_index=map_index)


def firing_of(registration: Registration, outcome: Any = "met", label: str = "x") -> ActionRecord:
    firing = FiringRecord(id="f", outcome=outcome, key=None, fired_at="t", events={label: [{}]}, origins={})
    return ActionRecord(
        subscription=registration.subscription,
        incarnation=registration.incarnation,
        state="fired",
        firing=firing,
    )


def deliver(wait: Wait) -> None:
    wait.deliver(FiringForWait(firing_of(wait.registration), ("i:n",)))


class FakeWaits:
    """The waits of a runtime, which deliver from another thread.

    then: called in that thread with each wait that is opened. look: whether the waits check the existing
    firings after that.
    """

    def __init__(self) -> None:
        self.opened: list[Wait] = []
        self.closed: list[Wait] = []
        self.withdrawn: list[Wait] = []
        self.then: Callable[[Wait], None] = lambda _: None
        self.threads: list[threading.Thread] = []
        self.look = True
        self.runtime: Any = None

    def open(self, registration: Any, deliver: Any, accepts: Any = None) -> Wait:
        wait = Wait(registration, deliver, accepts)
        self.opened.append(wait)

        def life() -> None:
            self.then(wait)
            wait.checked_firings = self.look

        thread = threading.Thread(target=life)
        self.threads.append(thread)
        thread.start()
        return wait

    def close(self, wait: Wait) -> None:
        self.closed.append(wait)

    def withdraw(self, wait: Wait) -> None:
        self.withdrawn.append(wait)

    def registration_keys(self, wait: Wait) -> tuple[str, ...]:
        return ("i:n", "i:m")


def fake_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWaits]:
    """Yields the waits of each runtime that is asked for, with a connection that can be read."""
    made = FakeWaits()

    class FakeRuntime:
        waits = made
        used: ClassVar[list[Any]] = []
        engines: ClassVar[list[bool]] = []

        def use(self, config: Any) -> None:
            self.used.append(config)

        def may_read_connection(self) -> bool:
            return True

        @classmethod
        def of(cls, config: Any, sink: Any, *, with_engine: bool = True) -> FakeRuntime:
            assert (config.name, config.deployment) == ("b", "d")
            cls.engines.append(with_engine)
            return cls()

    monkeypatch.setattr("interlock.engine.runtime.runtime.Runtime", FakeRuntime)
    made.runtime = FakeRuntime
    Connections(monkeypatch, GOOD)
    yield made
    for thread in made.threads:
        thread.join(10)


def events_of(trigger: EventTrigger) -> list[dict[str, Any]]:
    """Returns all payloads of one run; a run that does not end fails the test."""

    async def collect() -> list[dict[str, Any]]:
        return [e.payload async for e in trigger.run()]

    return asyncio.run(asyncio.wait_for(collect(), 20))


async def cancelled_while_it_waits(trigger: EventTrigger) -> None:
    run = asyncio.ensure_future(anext(trigger.run()))
    while trigger._open is None:  # noqa: ASYNC110
        await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
