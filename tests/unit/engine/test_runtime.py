"""The runtime: one for each bus and connection, kept through changes of the connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from interlock.engine import runtime as module
from interlock.engine.config import BusConfig
from interlock.engine.runtime import Runtime

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
OTHER = BusConfig(name="b", client={"bootstrap.servers": "two:2"})


@pytest.fixture
def runtime() -> Runtime:
    return Runtime(CONFIG)


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Runtime, "start", lambda self: None)
    monkeypatch.setattr(module, "_runtimes", {})
    monkeypatch.setattr(module.atexit, "register", lambda call: None)
    return


@pytest.mark.usefixtures("no_threads")
def test_a_rotated_secret_keeps_the_runtime_and_its_open_waits() -> None:
    first = Runtime.of(CONFIG)
    assert Runtime.of(OTHER) is first
    assert first.config is OTHER
    elsewhere = BusConfig(name="b", client=dict(OTHER.client), connection="kafka_other")
    assert Runtime.of(elsewhere) is not first


def test_of_all_troubled_waits_one_reads_the_connection_now_and_then(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    assert [runtime.may_read_connection() for _ in range(3)] == [True, False, False]
    now[0] += module.READ_AGAIN_S
    assert runtime.may_read_connection()
