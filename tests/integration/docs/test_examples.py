"""The Python examples of README and docs that emit events, against the real broker."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.events.kafka import decode

from local.topics import read_all

ROOT = Path(__file__).parents[3]


def example(page: str, word: str) -> str:
    """The one block of a page with this text in it."""
    [found] = [
        b for b in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL) if word in b
    ]
    return str(found)


@pytest.fixture
def bus(bootstrap_servers: str, unique_name: Callable[[str], str]) -> BusConfig:
    config = BusConfig(name=unique_name("docs"), client={"bootstrap.servers": bootstrap_servers})
    create(config, partitions=1)
    return config


def test_the_emitter_example_of_the_events_page_emits(bus: BusConfig) -> None:
    source = example("docs/use/events.md", "import Emitter")
    source = source.replace("localhost:9092", bus.bootstrap_servers).replace(
        "interlock-event", bus.topic("event")
    )
    exec(compile(source, "events.md", "exec"), {})
    [record] = read_all(bus.bootstrap_servers, bus.topic("event"))
    assert record.header("ce_type") == "com.bank.rates.published"


def test_the_plain_producer_of_the_events_page_writes_an_event(bus: BusConfig) -> None:
    source = example("docs/use/events.md", "import Producer")
    source = source.replace("localhost:9092", bus.bootstrap_servers)
    exec(compile(source.replace("interlock-event", bus.topic("event")), "events.md", "exec"), {})
    [record] = read_all(bus.bootstrap_servers, bus.topic("event"))
    read = decode(record.key, record.value, record.headers)
    assert (read.type, read.payload) == ("com.bank.rates.published", {"day": "2026-11-20"})


@pytest.mark.long
def test_the_spark_examples_emit_what_the_job_said(
    bus: BusConfig, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interlock.spark.completion import tracker

    monkeypatch.setattr(tracker, "is_program", lambda: False)  # as in a notebook: sent when the block ends
    session = spark.newSession()
    session.conf.set("spark.interlock.bootstrap.servers", bus.bootstrap_servers)
    session.conf.set("spark.interlock.bus", bus.name)
    names: dict[str, Any] = {
        "spark": session,
        "date": "2026-11-20",
        "write_orders": lambda given: f"orders/{given.range(7).count()}",
    }
    for page in ("README.md", "docs/use/spark.md"):
        exec(compile(example(page, "completion_event("), page, "exec"), names)
    records = read_all(bus.bootstrap_servers, bus.topic("event"))
    assert [r.header("ce_type") for r in records] == ["interlock.spark.application.succeeded"] * 2
    assert [(r.json()["date"], r.json()["output"]) for r in records] == [("2026-11-20", "orders/7")] * 2
