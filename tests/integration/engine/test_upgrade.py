"""A pool that is upgraded and rolled back one engine at a time, under load.

`format_1.zip` holds the engine of the last version that knew format 1 alone: its packages engine, conditions
and events, as they were released. It runs in processes of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from interlock import event
from interlock.engine.config import KINDS, BusConfig
from interlock.engine.kafka import topics

PAIR = event("orders", by="data.day") & event("rates", by="data.day")
EARLIER = """
import json, logging, sys, threading
from interlock.engine.config import BusConfig
from interlock.engine.runtime import run_engine
logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
run_engine(BusConfig(**json.loads(sys.argv[1])), threading.Event())
"""

MADE_EARLIER = """
import json, sys
from interlock.engine import topics
from interlock.engine.config import BusConfig
topics.create(BusConfig(**json.loads(sys.argv[1])), partitions=4)
"""


@pytest.fixture
def released(tmp_path: Path) -> dict[str, str]:
    """The environment of a process of the earlier version."""
    with zipfile.ZipFile(Path(__file__).with_name("format_1.zip")) as archive:
        archive.extractall(tmp_path)
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def form_of(config: BusConfig) -> str:
    return json.dumps({"name": config.name, "client": dict(config.client)})


@pytest.fixture
def earlier(bench: Any, released: dict[str, str]) -> Callable[[BusConfig], subprocess.Popen[bytes]]:
    """Starts an engine of the earlier version."""

    def start(config: BusConfig) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", EARLIER, form_of(config)], env=released)
        bench.stack.callback(process.wait)
        bench.stack.callback(process.kill)
        return process

    return start


@pytest.fixture
def stage(bench: Any, unique_name: Callable[[str], str], released: dict[str, str]) -> Any:
    """A bus that was made by the earlier version; its topics' times are the brokers' (CHANGELOG)."""
    config = BusConfig(name=unique_name("bus"), client=bench.config.client)
    subprocess.run([sys.executable, "-c", MADE_EARLIER, form_of(config)], env=released, check=True)
    name, value = "message.timestamp.type", "LogAppendTime"
    stamped = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)]
    topic_settings = [
        ConfigResource(ResourceType.TOPIC, config.topic(kind), incremental_configs=stamped) for kind in KINDS
    ]
    for done in bench.admin.incremental_alter_configs(topic_settings).values():
        done.result()
    made = type(bench)(config, 4, bench._eventually)
    bench.stack.enter_context(made.stack)
    return made


def test_a_pool_is_upgraded_and_rolled_back_one_by_one_and_its_format_raised_under_load(
    stage: Any, earlier: Callable[[BusConfig], subprocess.Popen[bytes]]
) -> None:
    waits: dict[str, Any] = {}

    def half(turn: int) -> None:
        """Complete what the turn before left half met, and leave some half met."""
        for n in range(20):
            day = f"{turn}-{n}"
            waits[day] = waiting(f"w-{day}", PAIR, day)
            stage.emit("orders", data={"day": day}, subject=day)
        for n in range(20):
            day = f"{turn - 1}-{n}"
            if day in waits:
                stage.emit("rates", data={"day": day}, subject=day)
        for n in range(20):
            if f"{turn - 1}-{n}" in waits:
                waits[f"{turn - 1}-{n}"].firing()

    with ExitStack() as stack:
        waiting = stack.enter_context(stage.waiting())
        first, second = earlier(stage.config), earlier(stage.config)
        half(1)
        stage.sigkill(first)
        upgraded = stage.engine_process()  # beside one of the earlier version
        half(2)
        stage.sigkill(upgraded)
        rolled_back = earlier(stage.config)  # it reads what the later version wrote
        half(3)
        stage.sigkill(second)
        stage.engine_process()
        half(4)
        stage.sigkill(rolled_back)
        stage.engine_process()
        half(5)
        record = topics.bus_record(stage.config)
        assert record is not None
        assert record.format == 1
        topics.write_bus_record(stage.config, msgspec.structs.replace(record, format=2))
        half(6)
        timed = waiting("timed", (event("x") & event("y")).expires(after="1s"))
        assert timed.firing().action.firing.outcome == "expired"
        half(7)
    counts = Counter(f["subscription"] for f in stage.firings())
    assert counts == {"timed": 1, **{f"w-{turn}-{n}": 1 for turn in range(1, 7) for n in range(20)}}


def test_what_a_format_has_no_words_for_is_told_to_who_waits_until_the_bus_is_upgraded(
    stage: Any, eventually: Any
) -> None:
    with stage.engine(), stage.waiting() as waiting:
        wait = waiting("timed", event("x").quiet("1s"))
        eventually("it is told", lambda: any("topics upgrade" in (n or "") for n in wait.notices))
        assert stage.firings() == []


def test_an_engine_of_the_earlier_version_refuses_a_bus_of_a_later_format(
    stage: Any, earlier: Callable[[BusConfig], subprocess.Popen[bytes]]
) -> None:
    record = topics.bus_record(stage.config)
    assert record is not None
    topics.write_bus_record(stage.config, msgspec.structs.replace(record, format=2))
    assert earlier(stage.config).wait(60) != 0
