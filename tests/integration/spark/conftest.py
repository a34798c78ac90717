"""A bus for each test, and Spark jobs in their own processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from local.topics import Record, read_all

LOCAL = {
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
}
SUBMIT = Path(sys.executable).parent / "spark-submit"


@dataclass
class Jobs:
    """Runs jobs, and reads the events they emitted.

    settings: of Spark. client: more properties of the Airflow connection, for jobs that a task submits.
    """

    servers: str
    bus: str
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    client: dict[str, str] = field(default_factory=dict)

    def write(self, source: str) -> Path:
        path = self.folder / "job.py"
        path.write_text(source)
        return path

    def conf(self) -> dict[str, str]:
        ours = {"spark.interlock.bootstrap.servers": self.servers, "spark.interlock.bus": self.bus}
        return {**LOCAL, **ours, **self.settings}

    def submit(self, *command: str, **popen: Any) -> subprocess.Popen[str]:
        """spark-submit, with the settings of these jobs."""
        confs = [f"--conf={name}={value}" for name, value in self.conf().items()]
        return self._start([str(SUBMIT), *confs, *command], **popen)

    def python(self, *command: str, **popen: Any) -> subprocess.Popen[str]:
        """Python itself, with the settings where pyspark takes them from."""
        confs = " ".join(f"--conf '{name}={value}'" for name, value in self.conf().items())
        return self._start(
            [sys.executable, *command], env={"PYSPARK_SUBMIT_ARGS": f"{confs} pyspark-shell"}, **popen
        )

    def events(self) -> list[Record]:
        return read_all(self.servers, f"{self.bus}-event")

    def emitted(self) -> list[tuple[str, str]]:
        """(subject, type without its prefix) of all events, sorted."""
        found = [
            (r.header("ce_subject") or "", (r.header("ce_type") or "").removeprefix("interlock.spark."))
            for r in self.events()
        ]
        return sorted(found)

    def data(self, kind: str, subject: str) -> dict[str, Any]:
        """The data of the one event of this type and subject."""
        [record] = [
            r
            for r in self.events()
            if r.header("ce_type") == f"interlock.spark.{kind}" and r.header("ce_subject") == subject
        ]
        data: dict[str, Any] = json.loads(record.value or b"")
        return data

    def _start(
        self, command: list[str], env: dict[str, str] | None = None, **popen: Any
    ) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, **(env or {})}
        for name in list(environment):
            if name.startswith("AIRFLOW_CTX_"):
                del environment[name]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **popen,
        )


@pytest.fixture
def bus(bootstrap_servers: str, unique_name: Callable[[str], str]) -> str:
    """The name of a bus whose event topic exists."""
    name = unique_name("bus")
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(f"{name}-event", 1)])[f"{name}-event"].result(15)
    return name


@pytest.fixture
def jobs(bootstrap_servers: str, bus: str, tmp_path: Path) -> Jobs:
    return Jobs(bootstrap_servers, bus, tmp_path)
