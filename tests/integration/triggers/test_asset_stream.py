"""The stream of an asset watcher's trigger on a real broker, called as the triggerer calls it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.triggers.shared_stream import AdvanceItem, AdvanceOutcome
from interlock import count, event
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.engine.runtime.runtime import Runtime
from interlock.triggers.asset import ConditionTrigger

from tests.integration.engine.conftest import DEADLINE_S, Bench

STORED = AdvanceOutcome(acked=1, failed=0)


@pytest.fixture
def bench(
    bootstrap_servers: str,
    unique_name: Callable[[str], str],
    eventually: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    """A new bus, which every connection is of; its runtime, which the first trigger starts, is stopped."""
    config = BusConfig(name=unique_name("bus"), client={"bootstrap.servers": bootstrap_servers})
    create(config, partitions=2)

    async def read_bus_config(*_: Any) -> BusConfig:
        return config

    monkeypatch.setattr("interlock.triggers.asset.read_bus_config", read_bus_config)
    runtimes: dict[Any, Runtime] = {}
    monkeypatch.setattr(Runtime, "running", runtimes)
    made = Bench(config, 2, eventually)
    with made.stack:
        yield made
        for runtime in runtimes.values():
            runtime.stop()


def test_a_firing_of_more_than_a_megabyte_is_acknowledged_and_the_next_one_is_handed_over(bench: Any) -> None:
    condition = count(event("trade", by="subject"), 20)
    for key in ("eu", "us"):
        for number in range(20):
            bench.emit("trade", id=f"{key}{number}", subject=key, data={"pad": "x" * 60_000})
    trigger = ConditionTrigger("large", condition, since=datetime(2020, 1, 1, tzinfo=UTC))

    async def story() -> list[str]:
        producer = ConditionTrigger.create_shared_stream_producer(trigger.serialize()[1])
        stream, keys = producer.open_stream(), []
        try:
            async with asyncio.timeout(DEADLINE_S):
                for _ in range(2):
                    handed, place = await anext(stream)
                    handed.queued += 1
                    keys.append(handed.payload["key"])
                    await producer.advance([AdvanceItem(place, STORED)])
        finally:
            await stream.aclose()
            await producer.aclose()
        return keys

    assert sorted(asyncio.run(story())) == ["eu", "us"]
    records = bench.records("action")
    assert [len(json.dumps(each)) > 1_000_000 for each in bench.firings()] == [True, True]
    assert sorted(record.json()["state"] for record in records) == ["acked", "acked", "fired", "fired"]
