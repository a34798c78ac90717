"""What makes deliveries in a triggerer: one for each bus and connection, unless a setting says none."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import pytest
from airflow.sdk import BaseHook, Connection
from interlock.engine.config import BusConfig
from interlock.engine.errors import ConfigError
from interlock.engine.runtime.delivering import DelivererProcess
from interlock.engine.sending.posts import PostOptions
from interlock.triggers import delivering as module
from interlock.triggers.delivering import deliver_here

BUS = BusConfig(name="b", deployment="d", client={"bootstrap.servers": "one:1"})
CHANGED = BusConfig(name="b", deployment="d", client={"bootstrap.servers": "two:1"})


class Made:
    """A `Delivering` that makes no delivery."""

    made: list[Made]
    refusals: list[RuntimeError]  # what the next calls of `start` raise

    def __init__(self, config: BusConfig, make_posts: Any, process: DelivererProcess, metrics: Any) -> None:
        self.config, self.make_posts, self.limits = config, make_posts, process.parts.limits
        self.started = self.asked_to_stop = 0
        self.used: list[BusConfig] = []
        self.made.append(self)

    def start(self) -> None:
        if self.refusals:
            raise self.refusals.pop()
        self.started += 1

    def stop(self) -> None: ...

    def ask_to_stop(self) -> None:
        self.asked_to_stop += 1

    def use(self, config: BusConfig) -> None:
        self.used.append(config)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Made]]:
    Made.made, Made.refusals = [], []
    monkeypatch.setattr("interlock.engine.runtime.delivering.Delivering", Made)
    monkeypatch.setattr(module.atexit, "register", lambda _: None)
    yield Made.made
    module.running.clear()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    yield found
    found.close()


def test_all_triggers_of_a_bus_share_one_with_a_cap(
    made: list[Made], loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__INTERLOCK__DELIVERIES_IN_TRIGGERER", "7")
    first, second = deliver_here(BUS, loop), deliver_here(CHANGED, loop)
    assert first is second is made[0]
    [only] = made
    assert (only.started, only.limits.slots, only.used) == (1, 7, [BUS, CHANGED])
    other = BusConfig(name="c", deployment="d", client=dict(BUS.client))
    assert deliver_here(other, loop) is made[1]


def test_a_forked_process_gets_its_own(
    made: list[Made], loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver_here(BUS, loop)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    deliver_here(BUS, loop)
    assert len(made) == 2


def test_after_a_refused_thread_the_next_call_starts_another_one(
    made: list[Made], loop: asyncio.AbstractEventLoop
) -> None:
    """All later calls returned the one without threads: the triggerer made no delivery until its restart."""
    Made.refusals = [RuntimeError("can't start new thread")]
    with pytest.raises(RuntimeError, match="can't start new thread"):
        deliver_here(BUS, loop)
    assert deliver_here(BUS, loop) is made[1]
    refused, started = made
    assert (refused.started, refused.asked_to_stop) == (0, 1)  # its loop may run, without a watchdog
    assert (started.started, started.asked_to_stop) == (1, 0)


def test_with_0_deliveries_a_triggerer_makes_none(
    made: list[Made], loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__INTERLOCK__DELIVERIES_IN_TRIGGERER", "0")
    assert deliver_here(BUS, loop) is None
    monkeypatch.setenv("AIRFLOW__INTERLOCK__DELIVERIES_IN_TRIGGERER", "some")
    with pytest.raises(ConfigError, match="deliveries_in_triggerer = 'some'"):
        deliver_here(BUS, loop)
    assert made == []


def test_it_reads_the_sinks_connections_in_the_triggers_loop_and_allows_the_networks_of_the_setting(
    made: list[Made], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    async def get(conn_id: str) -> Connection:
        return Connection(conn_id=conn_id, conn_type="http", host="a")

    async def look_up() -> str:
        deliver_here(BUS, asyncio.get_running_loop())
        if not given:
            made[0].make_posts(BUS, print)
        [(_, lookup)] = given
        return str((await asyncio.to_thread(lookup, "crm")).url)

    def posts(config: BusConfig, lookup: Any, on_ended: Any, options: PostOptions) -> None:
        assert (options.allowed, on_ended) == ((ip_network("10.0.0.0/8"),), print)
        given.append((config, lookup))

    monkeypatch.setenv("AIRFLOW__INTERLOCK__DELIVERY_NETWORKS", "10.0.0.0/8")
    monkeypatch.setattr("interlock.engine.sending.posts.HttpPosts", posts)
    monkeypatch.setattr(BaseHook, "aget_connection", get)
    for _ in range(2):  # each `dag.test()` of a process has its own loop
        assert asyncio.run(look_up()) == "http://a"
