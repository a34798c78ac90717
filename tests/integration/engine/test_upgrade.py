"""A pool that is upgraded and rolled back one engine at a time, under load.

`format_1.zip` holds the engine of the last version that knew format 1 alone: its packages engine, conditions
and events, as they were released. It runs in processes of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from interlock import Event, event
from interlock.engine.config import KINDS, BusConfig
from interlock.engine.kafka import topics
from interlock.events.kafka import encode

PAIR = event("orders", by="data.day") & event("rates", by="data.day")
HALF_MET = 15  # at any time
PACE_S = 0.1
PAST = 10_000  # events of before, which each wait looks back over
# Of either version; it leaves in good order on SIGTERM.
ENGINE = """
import json, logging, signal, sys, threading
from interlock.engine.config import BusConfig
from interlock.engine.runtime.runtime import Runtime
logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
runtime = Runtime(BusConfig(**json.loads(sys.argv[1])))
runtime.start()
while not over.wait(1.0):
    pass
runtime.stop()
"""
ONCE = """
import json, sys, threading
from interlock.engine.config import BusConfig
from interlock.engine.runtime.runtime import run_engine
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


class Pool:
    """Engines of both versions on one bus."""

    def __init__(self, bench: Any, released: dict[str, str]) -> None:
        self._bench, self._released = bench, released

    def earlier(self, program: str = ENGINE) -> subprocess.Popen[bytes]:
        return self._started(program, self._released)

    def later(self) -> subprocess.Popen[bytes]:
        return self._started(ENGINE, None)

    def _started(self, program: str, env: dict[str, str] | None) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", program, form_of(self._bench.config)], env=env)
        self._bench.stack.callback(process.wait)
        self._bench.stack.callback(process.kill)
        return process

    @staticmethod
    def killed(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    @staticmethod
    def left(process: subprocess.Popen[bytes]) -> None:
        """In good order."""
        process.terminate()
        assert process.wait(30) == 0


class Traffic:
    """Waits that look back over all there is, and their events, all the time; some are always half met."""

    def __init__(self, stage: Any, open_wait: Callable[..., Any], eventually: Any) -> None:
        self._stage, self._open, self._eventually = stage, open_wait, eventually
        self.waits: list[Any] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._life, name="traffic")

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)

    def _life(self) -> None:
        while not self._over.wait(PACE_S):
            n = len(self.waits)
            self.waits.append(self._open(f"w-{n}", PAIR, f"d{n}"))
            self._stage.emit("orders", data={"day": f"d{n}"}, subject=f"d{n}")
            if n >= HALF_MET:
                self._complete(n - HALF_MET)
        for n in range(max(0, len(self.waits) - HALF_MET), len(self.waits)):
            self._complete(n)

    def _complete(self, n: int) -> None:
        self._stage.emit("rates", data={"day": f"d{n}"}, subject=f"d{n}")

    def goes_on(self) -> None:
        """What is half met now is met, and so are waits that begin after it."""
        until = len(self.waits) + 5
        self._eventually(
            "waits of before and after are met",
            lambda: len(self.waits) > until and all(wait.deliveries for wait in self.waits[:until]),
            deadline_s=90,
        )


@pytest.fixture
def pool(stage: Any, released: dict[str, str]) -> Pool:
    return Pool(stage, released)


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
    stage: Any, pool: Pool, eventually: Any
) -> None:
    """Engines are killed, and leave in good order, while events, waits and look-backs go on."""
    past = Producer(dict(stage.config.client))
    for n in range(PAST):
        key, value, headers = encode(Event.of("past", "/test", id=str(n), subject=f"s{n}"))
        past.produce(stage.config.topic("event"), value, key, headers=headers)
    past.flush()
    with ExitStack() as stack:
        waiting = stack.enter_context(stage.waiting())
        first, second = pool.earlier(), pool.earlier()
        traffic = stack.enter_context(Traffic(stage, waiting, eventually))
        traffic.goes_on()
        pool.killed(first)
        upgraded = pool.later()  # beside one of the earlier version
        traffic.goes_on()
        pool.left(upgraded)
        rolled_back = pool.earlier()  # it reads what the later version wrote
        traffic.goes_on()
        pool.left(second)
        third = pool.later()
        traffic.goes_on()
        pool.killed(rolled_back)
        fourth = pool.later()
        traffic.goes_on()
        record = topics.bus_record(stage.config)
        assert record is not None
        assert record.format == 1
        topics.write_bus_record(stage.config, msgspec.structs.replace(record, format=2))
        # Of all orders, those of before as well.
        stage.subscribe("each order", event("orders", by="data.day"))
        timed = waiting("timed", (event("x") & event("y")).expires(after="1s"))
        traffic.goes_on()
        pool.left(third)
        fifth = pool.later()
        traffic.goes_on()
        pool.killed(fourth)
        traffic.goes_on()
        assert timed.firing().action.firing.outcome == "expired"
        traffic.__exit__()
        for wait in traffic.waits:
            wait.firing()
        number = len(traffic.waits)
        stage.eventually_fired("each order", number)
        assert fifth.poll() is None
    fired = stage.firings()
    counts = Counter(f["subscription"] for f in fired)
    assert counts == {"timed": 1, "each order": number, **{f"w-{n}": 1 for n in range(number)}}
    assert len({f["firing"]["id"] for f in fired}) == len(fired)


def test_what_a_format_has_no_words_for_is_told_to_who_waits_until_the_bus_is_upgraded(
    stage: Any, eventually: Any
) -> None:
    with stage.engine(), stage.waiting() as waiting:
        wait = waiting("timed", event("x").quiet("1s"))
        eventually("it is told", lambda: any("topics upgrade" in (n or "") for n in wait.notices))
        assert stage.firings() == []


def test_an_engine_of_the_earlier_version_refuses_a_bus_of_a_later_format(stage: Any, pool: Pool) -> None:
    record = topics.bus_record(stage.config)
    assert record is not None
    topics.write_bus_record(stage.config, msgspec.structs.replace(record, format=2))
    assert pool.earlier(ONCE).wait(60) != 0
