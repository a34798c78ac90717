"""The trigger of `deliver_dag`, with a fake runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Connection
from interlock import event
from interlock.engine.errors import ConfigError
from interlock.engine.waiting.dispatching import MORE_FIRINGS
from interlock.engine.waiting.notices import Notice, NoticeBoard
from interlock.triggers.deliver import DeliverTrigger
from interlock.triggers.firings import SubscriptionFirings

from tests.unit.triggers.connecting import GOOD, Connections, in_seconds

DURABLE = {
    "subscription": "airflow/deliver/d", "condition": event("x").to_json(), "since_ms": 1,
    "since_given": False, "max_keys": 10, "at_limit": "dead-letter",
    "sink": {"subscription": "airflow/deliver/d", "connection": "crm", "path": "/a"},
}  # fmt: skip


def a_trigger(**changes: Any) -> DeliverTrigger:
    kwargs = {
        "durable": DURABLE, "kafka_conn_id": "kafka_default", "bus": "b", "deployment": "d",
        "resume_not_before": in_seconds(0), "renew_at": in_seconds(0),
    }  # fmt: skip
    return DeliverTrigger(**{**kwargs, **changes})


class Stage:
    """The runtime with its dispatching."""

    def __init__(self) -> None:
        self.board = NoticeBoard()
        self.waits = SimpleNamespace(dispatching=self)
        self.stream = SimpleNamespace(registered=True)
        self.opened: list[Any] = []
        self.closed = 0
        self.config = "the bus"
        self.on_open: Callable[[Callable[[Any], None]], None] = lambda _: None

    def open(self, durable: Any, deliver: Callable[[Any], None]) -> Any:
        self.opened.append(durable)
        self.on_open(deliver)
        return self.stream

    def close(self, stream: Any) -> None:
        assert stream is self.stream
        self.closed += 1


class Delivering:
    """What makes deliveries in this triggerer."""

    def __init__(self) -> None:
        self.board = NoticeBoard()
        self.started: list[Any] = []
        self.used: list[Any] = []

    def __call__(self, config: Any, loop: asyncio.AbstractEventLoop) -> Delivering:
        self.started.append(config)
        return self

    def use(self, config: Any) -> None:
        self.used.append(config)


@pytest.fixture
def delivering(monkeypatch: pytest.MonkeyPatch) -> Delivering:
    made = Delivering()
    monkeypatch.setattr("interlock.triggers.delivering.deliver_here", made)
    return made


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, delivering: Delivering) -> Stage:
    made = Stage()
    monkeypatch.setattr("interlock.engine.runtime.runtime.Runtime.of", lambda *_: made)
    Connections(monkeypatch, GOOD)
    return made


def outcome(trigger: DeliverTrigger) -> Any:
    async def one() -> Any:
        return [event.payload async for event in trigger.run()]

    [payload] = asyncio.run(one())
    return payload


@pytest.mark.parametrize("registered", [True, False])
def test_at_renew_at_it_yields_whether_the_subscription_is_registered(stage: Stage, registered: bool) -> None:
    stage.stream.registered = registered
    assert outcome(a_trigger()) == {"outcome": "renew", "registered": registered}
    [durable] = stage.opened
    assert (durable.subscription, durable.sink) == ("airflow/deliver/d", DURABLE["sink"])
    assert stage.closed == 1


def test_it_stays_until_renew_at_whatever_is_reported(
    stage: Stage, delivering: Delivering, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report(deliver: Callable[[Any], None]) -> None:
        deliver(MORE_FIRINGS)
        deliver(Notice("The sink of 'airflow/deliver/d' was removed."))

    async def until_it_waits_again() -> None:
        waits = asyncio.Semaphore(0)

        async def wait_for_more(firings: SubscriptionFirings, timeout_s: float) -> None:
            waits.release()
            await waited(firings, timeout_s)

        monkeypatch.setattr(SubscriptionFirings, "wait_for_more", wait_for_more)
        run = asyncio.ensure_future(anext(aiter(a_trigger(renew_at=in_seconds(3600)).run())))
        for _ in range(2):
            await waits.acquire()
        run.cancel()
        assert await asyncio.gather(run, return_exceptions=True) != [None]

    waited, stage.on_open = SubscriptionFirings.wait_for_more, report
    asyncio.run(until_it_waits_again())
    assert stage.closed == 1
    assert delivering.started == ["the bus"]
    assert set(delivering.used) == {"the bus"}


def test_what_is_wrong_with_deliveries_is_in_the_log_of_its_task(
    stage: Stage, delivering: Delivering, capsys: pytest.CaptureFixture[str]
) -> None:
    delivering.board.post("The deliverer", "Cannot reach bus 'b'.")
    listening: list[int] = []

    async def yielded() -> None:
        async for _ in a_trigger().run():
            delivering.board.post("The deliverer", "after it has ended")
            listening.append(len(delivering.board._listeners))

    asyncio.run(yielded())
    output = capsys.readouterr().out
    assert "Cannot reach bus 'b'. Firings are delivered when it works again." in output
    assert listening == [0]


def test_a_triggerer_that_makes_no_deliveries_only_registers(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.triggers.delivering.deliver_here", lambda *_: None)
    assert outcome(a_trigger()) == {"outcome": "renew", "registered": True}


def test_a_kafka_connection_that_is_not_usable_fails_the_task(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    Connections(monkeypatch, Connection(conn_id="kafka_default", conn_type="http"))
    with pytest.raises(ConfigError, match="has type 'http'; give one of type 'kafka'"):
        outcome(a_trigger())
    assert (stage.opened, stage.closed) == ([], 0)
