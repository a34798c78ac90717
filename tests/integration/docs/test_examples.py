"""The Python examples of README and docs that emit events, against the real broker."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.topics import create

from demo.topics import read_all

ROOT = Path(__file__).parents[3]


def example(page: str, word: str) -> str:
    """The one block of a page with this word in it."""
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
    source = example("docs/events.md", "Emitter(")
    source = source.replace("localhost:9092", bus.bootstrap_servers).replace("demo-event", bus.topic("event"))
    exec(compile(source, "events.md", "exec"), {})
    [record] = read_all(bus.bootstrap_servers, bus.topic("event"))
    assert record.header("ce_type") == "com.bank.rates.published"


def test_the_spark_example_of_the_readme_emits_what_the_job_said(bus: BusConfig) -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    try:
        session = spark.newSession()
        session.conf.set("spark.interlock.bootstrap.servers", bus.bootstrap_servers)
        session.conf.set("spark.interlock.bus", bus.name)
        names: dict[str, Any] = {
            "spark": session,
            "date": "2026-11-20",
            "write_orders": lambda given: given.range(7).count(),
        }
        exec(compile(example("README.md", "completion_event("), "README", "exec"), names)
    finally:
        spark.stop()
    [record] = read_all(bus.bootstrap_servers, bus.topic("event"))
    assert record.header("ce_type") == "interlock.spark.application.succeeded"
    assert record.json()["rows"] == 7
