"""Probes of `airflow interlock engine` and `deliver`: processes of their own, as in a pod."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.plugin.broker.ports import free_ports

from tests.chaos.cluster import Cluster
from tests.chaos.proxy import Rule
from tests.kit.asking import status

Start = Callable[[str, BusConfig], "Process"]


class Process:
    """A command with --probe-port."""

    def __init__(self, command: str, config: BusConfig, log: Path) -> None:
        [self.port] = free_ports(1)
        self.log = log
        connection = json.dumps({"conn_type": "kafka", "extra": dict(config.client)})
        with log.open("w") as out:
            self.popen = subprocess.Popen(
                [
                    *(str(Path(sys.executable).parent / "airflow"), "interlock", command),
                    *("--conn-id", "kafka_cli", "--bus", config.name, "--probe-port", str(self.port)),
                ],
                env={**os.environ, "AIRFLOW_CONN_KAFKA_CLI": connection},
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def probe(self, path: str) -> int | None:
        """The status of an answer; None without one. Fails if the process has ended."""
        assert self.popen.poll() is None, self.log.read_text()
        return status(self.port, path)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "broker") as made:
        yield made


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Starts a command; at the end, before the brokers' proxy, kills it."""
    started: list[Process] = []

    def run(command: str, config: BusConfig) -> Process:
        started.append(Process(command, config, tmp_path / f"{command}.log"))
        return started[-1]

    yield run
    for process in started:
        process.popen.kill()
        process.popen.wait()


@pytest.mark.long
def test_while_the_brokers_are_away_they_are_not_ready_but_healthy_and_come_back(
    cluster: Cluster, start: Start, eventually: Callable[..., Any], unique_name: Callable[[str], str]
) -> None:
    name = unique_name("bus")
    create(BusConfig(name=name, client={"bootstrap.servers": cluster.direct}), partitions=2)
    proxied = BusConfig(name=name, client={"bootstrap.servers": cluster.proxied})
    processes = [start(command, proxied) for command in ("engine", "deliver")]

    def answers(path: str, status: int) -> Callable[[], bool]:
        return lambda: [process.probe(path) for process in processes] == [status, status]

    eventually("both are ready", answers("/readyz", 200))
    away = cluster.proxy.add(Rule("cut", time.monotonic() + 3600))
    eventually("both are not ready", answers("/readyz", 503))
    assert answers("/healthz", 200)()
    away.until = 0.0
    eventually("both are ready again", answers("/readyz", 200))
    assert answers("/healthz", 200)()
