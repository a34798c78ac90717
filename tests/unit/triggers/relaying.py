"""A queue in memory, triggers that read it as Airflow's read theirs, a producer that notes each write, and
relays of them.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

import pytest
from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer
from interlock import Event
from interlock.triggers import relay as module
from interlock.triggers import relay_writer
from interlock.triggers.relay import RelayTrigger

from tests.unit.triggers.connecting import GOOD, Connections, in_seconds

HERE = __name__
SHOP = {"type": "com.shop.order", "source": "/shop", "subject": None, "id": None, "function": None}


class Queue:
    """Messages that the source holds until they are acknowledged; an exception is raised instead.

    steps: all that happened, in order. at_end: called when nothing is left.
    """

    now: Queue

    def __init__(self, *messages: Any) -> None:
        self.messages = deque(messages)
        self.steps: list[str] = []
        self.at_end: Callable[[], None] = lambda: None
        Queue.now = self

    def first(self) -> Any:
        found = self.messages[0]
        if isinstance(found, BaseException):
            self.messages.popleft()
            raise found
        self.steps.append(f"take {found}")
        return found

    def acknowledge(self) -> None:
        found = self.messages.popleft()
        self.steps.append(f"acknowledge {found}")
        if not self.messages:
            self.at_end()


class Once(BaseEventTrigger):
    """Fires one message and ends; acknowledges it after the `yield`, or before, as most of Airflow's do."""

    def __init__(self, secret: str = "", *, first: bool = False) -> None:
        super().__init__()
        self.secret, self.first = secret, first

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{HERE}.{type(self).__name__}", {"secret": self.secret, "first": self.first}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        yield await self.one()
        if not self.first:
            await asyncio.sleep(0)
            Queue.now.acknowledge()

    async def one(self) -> TriggerEvent:
        await asyncio.sleep(0)
        found = TriggerEvent(Queue.now.first())
        if self.first:
            Queue.now.acknowledge()
        return found

    async def cleanup(self) -> None:
        Queue.now.steps.append("clean up")


class Endless(Once):
    """Fires all messages in one run. Without any it waits for ever."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        if not Queue.now.messages:
            await asyncio.Event().wait()
        while Queue.now.messages:
            yield await self.one()
            if not self.first:
                Queue.now.acknowledge()


class Silent(Once):
    """Ends without firing."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        Queue.now.at_end()
        return
        yield


class Unacknowledging(Once):
    """Leaves acknowledging to others."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        yield await self.one()


async def acknowledge(payload: Any, trigger: Once) -> None:
    assert isinstance(trigger, Unacknowledging)
    await asyncio.sleep(0)
    Queue.now.steps.append(f"call with {payload}")
    Queue.now.acknowledge()


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int


class Stream(SharedStreamProducer):
    async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        for offset in range(len(Queue.now.messages)):
            yield Queue.now.first(), Place("t", 0, offset)

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        [item] = batch
        assert item.outcome.is_clean
        Queue.now.acknowledge()

    async def aclose(self) -> None:
        Queue.now.steps.append("close")


class Shared(Once):
    """Has a shared stream in ack mode, as Airflow's KafkaSharedStreamTrigger."""

    def shared_stream_key(self) -> str:
        return "all"

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> Stream:
        assert kwargs == {"secret": "", "first": False}
        return Stream()

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for raw in shared_stream:
            if raw != "other":
                yield TriggerEvent(raw)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        raise NotImplementedError
        yield


class Producer:
    """Notes the events that it writes; raises the next of `errors`, if any, and waits for `free`."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.errors: list[Exception | None] = []
        self.made = self.closed = 0
        self.free: asyncio.Event | None = None
        self.is_writing = asyncio.Event()

    def __call__(self, *_: Any) -> Producer:
        self.made += 1
        return self

    async def write(self, events: Sequence[Event]) -> None:
        self.is_writing.set()
        await asyncio.sleep(0)
        if self.free is not None:
            await self.free.wait()
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        self.events += events
        Queue.now.steps += [f"write {(event.data or b'').decode()}" for event in events]

    def close(self) -> None:
        self.closed += 1

    @property
    def written(self) -> list[str]:
        return [(event.data or b"").decode() for event in self.events]


def a_producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    """The producer of each relay of the test, whose pauses are short."""
    made = Producer()
    monkeypatch.setattr("interlock.engine.kafka.event_producer.EventProducer", made)
    Connections(monkeypatch, GOOD)
    monkeypatch.setattr(module, "MAX_RESTART_PAUSE_S", 0.001)
    monkeypatch.setattr(module, "SETTLE_S", 0.001)
    monkeypatch.setattr(relay_writer, "MAX_PAUSE_S", 0.001)
    return made


def a_relay(trigger: Once, **changes: Any) -> RelayTrigger:
    kwargs = {
        "inner": trigger.serialize(), "attributes": SHOP, "acknowledge": None, "at_invalid": "stop",
        "kafka_conn_id": "kafka_default", "bus": "b", "deployment": "d", "resume_not_before": in_seconds(0),
        "renew_at": in_seconds(60),
    }  # fmt: skip
    return RelayTrigger(**{**kwargs, **changes})


async def run(relay: RelayTrigger) -> dict[str, Any]:
    """Runs the relay until the queue is empty."""

    def renew() -> None:
        relay.renew_at = in_seconds(0)

    Queue.now.at_end = renew
    [event] = [each async for each in relay.run()]
    json.dumps(event.payload, allow_nan=False)
    payload: dict[str, Any] = event.payload
    return payload


def relayed(inner: Once, **changes: Any) -> dict[str, Any]:
    return asyncio.run(run(a_relay(inner, **changes)))
