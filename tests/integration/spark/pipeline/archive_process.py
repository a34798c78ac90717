"""The archive job in its own process, and its step within a batch, derived from its files."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from interlock.spark.pipeline import job

from tests.kit.sessions import SETTINGS

from .conftest import Site

PHASES = ("starting", "planned", "writing", "written", "between")
_SUBMIT = Path(sys.executable).parent / "spark-submit"


class ArchiveProcess:
    """spark-submit of the archive job. `log`: what it printed."""

    def __init__(self, site: Site, folder: Path, log: Path, jars: str, *arguments: str) -> None:
        self.archive = folder
        self.log = log
        confs = {
            **{name: value for name, value in SETTINGS.items() if not name.startswith("spark.jars.")},
            "spark.jars": jars,
            "spark.interlock.bootstrap.servers": site.servers,
            "spark.interlock.bus": site.name,
            "spark.driver.memory": "1g",
        }
        command = [str(_SUBMIT), *(f"--conf={name}={value}" for name, value in confs.items())]
        command += [job("archive"), "--archive", str(folder), "--topic", site.topic(), *arguments]
        with log.open("w") as output:
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
                start_new_session=True,
            )

    def finished(self, deadline_s: float = 300) -> tuple[int, str]:
        """Exit code and output, once it has ended."""
        return self._process.wait(deadline_s), self.log.read_text()

    def kill(self) -> None:
        """SIGKILL to all its processes at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(60)

    def until(self, what: str, fact: Callable[[], bool], deadline_s: float = 300) -> None:
        """Wait for a fact, looking each half millisecond; an error where the process ends before."""
        deadline, pause = time.monotonic() + deadline_s, threading.Event()
        while not fact():
            if self._process.poll() is not None or time.monotonic() > deadline:
                code = self._process.poll()
                raise AssertionError(f"{what} did not come, exit code {code}:\n{self._said()}")
            pause.wait(0.0005)

    def _said(self) -> str:
        """The end of what it printed, without Spark's own lines that say nothing of errors."""
        lines = self.log.read_text().splitlines()
        return "\n".join([line for line in lines if " INFO " not in line][-60:])


def phase(folder: Path) -> str:
    """The step within a batch that a run has reached, or had when it was killed, according to its files."""
    runs, planned, done = _names(folder / "_runs"), _last(folder, "offsets"), _last(folder, "commits")
    if not runs:
        return "starting"
    if planned == done:
        return "between" if _of_run(folder, max(runs)) else "starting"
    found = [each for each in _of_run(folder, max(runs)) if each.startswith(f"batch={planned}.")]
    if not found:
        return "planned"
    return "written" if (folder / found[0] / "_SUCCESS").exists() else "writing"


def batches_done(folder: Path) -> int:
    return _last(folder, "commits") + 1


def _of_run(folder: Path, run: str) -> list[str]:
    return [name for name in _names(folder) if name.startswith("batch=") and name.endswith(run)]


def _names(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.iterdir() if not each.name.startswith(".")]
    except FileNotFoundError:
        return []


def _last(folder: Path, log: str) -> int:
    return max((int(name) for name in _names(folder / "_checkpoint" / log) if name.isdecimal()), default=-1)
