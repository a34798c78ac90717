"""Runs the loop and the job in their own processes, and reads their results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from interlock.spark.pipeline import job

from .checksum import Checksum

MEMORY = "512m"  # of the driver, which is the executor too in local mode
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Measured:
    """The result of a run. checksum: see `Checksum`. took_s: without the start of its process."""

    firings: int
    checksum: int
    events: int
    took_s: float

    @property
    def answer(self) -> tuple[int, int]:
        return (self.firings, self.checksum)

    @property
    def events_per_s(self) -> float:
        return self.events / self.took_s


def loop(archive: Path, condition: str) -> Measured:
    """Runs the plain loop, with unlimited memory."""
    return Measured(**_run([sys.executable, "-m", "bench.backtest.loop", str(archive), condition]))


def backtest(folder: Path, output: Path, condition: str, cores: int) -> Measured:
    """Runs the job on `folder`/archive, in a JVM of 512 MB."""
    submit = Path(sys.executable).parent / "spark-submit"
    settings = {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": MEMORY,
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "spill"),
    }
    confs = [f"--conf={name}={value}" for name, value in settings.items()]
    arguments = ["--archive", str(folder / "archive"), "--output", str(output), "--condition", condition]
    summary = _run([str(submit), *confs, job("backtest"), *arguments, "--output-format", "json"])
    checksum = Checksum()
    for batch in ds.dataset(output / "firings").to_batches(batch_size=10_000):
        for row in batch.to_pylist():
            parts = [tuple(part.values()) for part in row["events"]]
            due = (row["fired_ms"], row["timer_ms"])
            checksum.add(row["key"], row["outcome"], *due, row["missing"], parts)
    return Measured(checksum.firings, checksum.value, summary["events"], summary["duration_s"])


def _run(command: list[str]) -> dict[str, Any]:
    """Runs a command; returns the JSON object in its last line of output."""
    done = subprocess.run(
        command,
        cwd=_ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
