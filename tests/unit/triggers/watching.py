"""A fake of the action topic for asset watchers, and triggers in Airflow's manager of shared streams."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.triggers.shared_stream import SharedStreamManager
from interlock.engine.errors import ConfigError, UnreachableError
from interlock.engine.records import ActionRecord, FiringRecord
from interlock.triggers import asset as module
from interlock.triggers.asset import ConditionTrigger


class Topic:
    """The open firings, and the acknowledged ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ids = ["a", "b", "c"]
        self.foreign: set[str] = set()  # firings of another subscription
        self.acknowledged: list[str] = []
        self.counted: list[int] = []
        self.opened: list[Any] = []  # registered subscriptions
        self.closed: list[Any] = []
        self.forgotten: set[tuple[int, int]] = set()
        # How many of the next ones fail.
        self.failing_acknowledgements = self.failing_reads = self.failing_opens = 0
        self.configs: list[str] = []  # used to read and to acknowledge
        topic = self

        class Firings:
            def __init__(self, durable: Any, *_: Any) -> None:
                assert durable.subscription == "airflow/asset/n"
                self.durable = durable

            async def open(self) -> None:
                if topic.failing_opens:
                    topic.failing_opens -= 1
                    raise ConfigError("Connection 'c' cannot be read.")
                topic.opened.append(self.durable)

            @property
            def replaced(self) -> bool:
                still = [each for each in topic.opened if each not in topic.closed]
                return still[-1:] != [self.durable]

            @property
            def config(self) -> str:
                return f"config {len(topic.configs)}"

            def take(self, most: int, without: Any, gone: Any) -> list[tuple[int, int]]:
                topic.forgotten |= gone
                places = [(0, n) for n, name in enumerate(topic.ids) if name not in topic.acknowledged]
                without = {*without, *topic.forgotten}
                return [] if self.replaced else [place for place in places if place not in without][:most]

            async def wait_for_more(self, timeout_s: float) -> None:
                await asyncio.sleep(0)

            def close(self) -> None:
                topic.closed.append(self.durable)

        monkeypatch.setattr(module, "SubscriptionFirings", Firings)
        monkeypatch.setattr("interlock.engine.waiting.open_firings.read", self.read)
        monkeypatch.setattr("interlock.engine.waiting.acknowledge.acknowledge_all", self.acknowledge)
        monkeypatch.setattr(module, "count_acknowledged", lambda _, __, count: self.counted.append(count))

    def read(self, config: str, places: list[tuple[int, int]]) -> list[ActionRecord | None]:
        self.configs.append(config)
        if self.failing_reads:
            self.failing_reads -= 1
            raise UnreachableError("The broker is away.")
        return [
            None if not (name := self.ids[n]) else ActionRecord(
                subscription="other" if name in self.foreign else "airflow/asset/n",
                kind="durable", incarnation="i", state="fired",
                firing=FiringRecord(id=name, outcome="met", key=None, fired_at="", events={}, origins={}),
            )
            for _, n in places
        ]  # fmt: skip

    def acknowledge(self, config: str, actions: list[ActionRecord]) -> None:
        self.configs.append(config)
        if self.failing_acknowledgements:
            self.failing_acknowledgements -= 1
            raise UnreachableError("the broker is away")
        self.acknowledged += [action.firing.id for action in actions]


class Watched:
    """A trigger in Airflow's manager, used as a triggerer uses it."""

    def __init__(self, manager: SharedStreamManager, trigger: ConditionTrigger, number: int) -> None:
        self._manager, self._number, self._key = manager, number, trigger.shared_stream_key()
        stream = manager.subscribe(trigger_id=number, trigger=trigger, key=self._key)
        self._events: Any = trigger.filter_shared_stream(stream)

    async def hands_over(self, *names: str) -> list[int]:
        """Returns the numbers with which Airflow confirms that it has stored these events."""
        numbers = []
        for name in names:
            async with asyncio.timeout(30):
                assert (await anext(self._events)).payload["firing_id"] == name
            number = self._manager.bind_pending_event(trigger_id=self._number, key=self._key)
            assert number is not None
            numbers.append(number)
        return numbers

    def asks_for_more(self) -> Any:
        return asyncio.create_task(anext(self._events))

    async def ends(self) -> None:
        await self._manager.unsubscribe(self._number, self._key)


@pytest.mark.usefixtures("at_once")
async def others_run() -> None:
    """Lets all other coroutines run until they wait for something else than their turn."""
    for _ in range(200):
        await asyncio.sleep(0)


async def acknowledged(topic: Topic, *names: str) -> None:
    async with asyncio.timeout(30):
        while topic.acknowledged != [*names]:  # noqa: ASYNC110  # a thread's list
            await asyncio.sleep(0)


async def taken_from(stream: Any, count: int) -> list[tuple[str, Any]]:
    """Returns (firing's id, place) of the next firings that the stream hands over.

    Counts each as queued, as the trigger does when Airflow asks it for the next one.
    """
    found = []
    for _ in range(count):
        handed, place = await anext(stream)
        handed.queued += 1
        found.append((handed.payload["firing_id"], place))
    return found
