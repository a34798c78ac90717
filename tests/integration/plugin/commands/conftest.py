"""The commands as Airflow's own parser runs them, on a bus of the session's broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create

from tests.integration.engine.conftest import Bench

Start = Callable[..., subprocess.Popen[str]]


@dataclass
class Ran:
    """A command that has ended. `code` 0: well."""

    code: int
    out: str
    err: str

    def rows(self) -> list[dict[str, Any]]:
        assert self.code == 0, self.err
        found: list[dict[str, Any]] = json.loads(self.out)
        return found


@pytest.fixture
def bench(
    bootstrap_servers: str, unique_name: Callable[[str], str], eventually: Callable[..., Any]
) -> Iterator[Bench]:
    """A new bus with two partitions."""
    config = BusConfig(name=unique_name("bus"), client={"bootstrap.servers": bootstrap_servers})
    create(config, partitions=2)
    made = Bench(config, 2, eventually)
    with made.stack:
        yield made


@pytest.fixture
def interlock(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Ran]:
    """`interlock("topics", "check")` runs the command on the bus; rows come as JSON."""
    from airflow.cli.cli_parser import get_parser

    connection = {"conn_type": "kafka", "extra": dict(bench.config.client)}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_CLI", json.dumps(connection))
    common = ("--conn-id", "kafka_cli", "--bus", bench.config.name)

    def run(*arguments: object, output: str = "json", answer: str | None = None) -> Ran:
        def typed() -> str:
            if answer is None:
                raise EOFError
            return answer

        monkeypatch.setattr("builtins.input", typed)
        args = get_parser().parse_args(["interlock", *map(str, arguments), *common, "--output", output])
        capfd.readouterr()
        try:
            args.func(args)
        except SystemExit as e:
            err = str(e.code)
            out, printed = capfd.readouterr()
            return Ran(1, out, printed + err)
        return Ran(0, *capfd.readouterr())

    return run


@pytest.fixture
def airflow_database() -> None:
    """Airflow's tables, without any run."""
    from airflow import settings
    from airflow.models import import_all_models
    from airflow.models.base import Base

    import_all_models()
    settings.initialize()
    Base.metadata.create_all(settings.engine)


@pytest.fixture
def start_command(bench: Bench, tmp_path: Path) -> Iterator[Start]:
    """`start_command("engine", "--probe-port", "1")` starts the command on the bus, as a process.

    client: other properties in its Kafka connection. Further keywords are environment variables. Its output
    is in engine.log.
    """
    started: list[subprocess.Popen[str]] = []

    def start(
        name: str, *arguments: str, client: dict[str, str] | None = None, **environment: str
    ) -> subprocess.Popen[str]:
        extra = dict(bench.config.client) if client is None else client
        connection = json.dumps({"conn_type": "kafka", "extra": extra})
        airflow = str(Path(sys.executable).parent / "airflow")
        common = ("--conn-id", "kafka_cli", "--bus", bench.config.name)
        with (tmp_path / f"{name}.log").open("w") as out:
            process = subprocess.Popen(
                [airflow, "interlock", name, *common, *arguments],
                env={**os.environ, "AIRFLOW_CONN_KAFKA_CLI": connection, **environment},
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
