"""What the engine's log lines carry as fields, and that Airflow's own set-up shows them."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.errors import UnreachableError
from interlock.engine.log import at, log
from interlock.engine.runtime import runtime as module
from interlock.engine.runtime.runtime import Runtime
from structlog.contextvars import clear_contextvars, get_contextvars

from tests.unit.engine.runtime.cluster import Cluster

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "127.0.0.1:1"})
Lines = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Each line of the engine, with the fields that it had."""
    found: Lines = []

    class Fields(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == log.name:  # not a client's of another test
                found.append((record.getMessage(), get_contextvars()))

    clear_contextvars()  # a test that ran an engine in this thread left its fields
    handler = Fields()
    log.addHandler(handler)
    yield found
    log.removeHandler(handler)


def test_topic_partition_and_offset_are_fields_of_lines_within_the_context_only(lines: Lines) -> None:
    with at("t", 1):
        log.error("a partition")
        with at("u", 2, 0):
            log.error("a record")
        log.error("the partition again")
    log.error("none")
    partition = {"topic": "t", "partition": 1}
    record = {"topic": "u", "partition": 2, "offset": 0}
    assert [fields for _, fields in lines] == [partition, record, partition, {}]


def failing_cluster() -> Cluster:
    """Each engine fails in its first pass."""

    def run_pass() -> None:
        with at("t", 0, 7):
            log.warning("a pass")
        raise UnreachableError("no answer")

    cluster = Cluster()
    cluster.run_pass = run_pass
    return cluster


def test_lines_of_an_engine_name_bus_and_engine_also_those_of_its_end_and_the_next_one_has_its_own(
    lines: Lines, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_cluster().stand_in(module, monkeypatch.setattr)
    runtime = Runtime(CONFIG, runs="engine")
    runtime.start()
    eventually("two engines have failed", lambda: [text for text, _ in lines].count("a pass") >= 2)
    runtime.stop()
    first, end, second = lines[:3]
    assert first == ("a pass", {"bus": "b", "engine": "id-1", "topic": "t", "partition": 0, "offset": 7})
    assert end == ("The engine: no answer", {"bus": "b", "engine": "id-1"})
    assert second[1]["engine"] == "id-2"
    assert get_contextvars() == {}


def test_what_is_said_before_there_is_an_engine_names_the_bus_alone(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def check(config: BusConfig, **_: Any) -> None:
        log.warning("looked")
        over.set()
        raise UnreachableError("no answer")

    monkeypatch.setattr(module, "check", check)
    runtime = Runtime(CONFIG, runs="engine")
    with at("of whoever starts it", 0):
        runtime.start()
        assert over.wait(30)
        runtime.stop()
    assert lines[0] == ("looked", {"bus": "b"})


PROGRAM = """
import threading
from airflow.logging_config import configure_logging
from tests.unit.engine import test_log
from interlock.engine.runtime import runtime

configure_logging()
failed = threading.Event()
test_log.failing_cluster().stand_in(runtime, setattr)
started = runtime.Runtime(test_log.CONFIG, runs="engine")
started.board.listen("program", lambda _: failed.set())
started.start()
assert failed.wait(30)
started.stop()
"""


def test_airflow_shows_the_fields_in_its_lines_of_json() -> None:
    environment = {**os.environ, "AIRFLOW__LOGGING__JSON_LOGS": "True"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=Path(__file__).parents[3],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    logged = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    of_the_engine = {line["event"]: line for line in logged if line.get("logger") == "interlock.engine"}
    fields = {"bus": "b", "engine": "id-1"}
    place = {"topic": "t", "partition": 0, "offset": 7}
    assert of_the_engine["a pass"].items() >= {**fields, **place, "level": "warning"}.items()
    line_of_its_end = of_the_engine["The engine: no answer"]
    assert line_of_its_end.items() >= fields.items()
    assert line_of_its_end.keys().isdisjoint(place)
