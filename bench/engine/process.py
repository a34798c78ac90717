"""Starts modules of this folder as processes, with the settings of a bus."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading

import psutil
from interlock.engine.config import BusConfig


def command(module: str, config: BusConfig, *more: object) -> list[str]:
    """The command `python -m bench.engine.MODULE SETTINGS ...`."""
    settings = json.dumps({"name": config.name, "client": dict(config.client)})
    return [sys.executable, "-m", f"bench.engine.{module}", settings, *map(str, more)]


def config_given() -> BusConfig:
    """The bus that `command` passed to this process."""
    return BusConfig(**json.loads(sys.argv[1]))


class Counting:
    """A process that prints how many partitions it owns and how many records it has consumed.

    owns: partitions that it processes. consumed: events and matches.
    """

    def __init__(self, module: str, config: BusConfig, *more: object) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # lives as long as the process
        self._popen = subprocess.Popen(
            command(module, config, *more), stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        self.owns = self.consumed = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            self.owns, self.consumed = map(int, line.split())

    def check(self) -> None:
        """Ends the bench, with the process's last output, if the process has ended."""
        if self._popen.poll() is not None:
            self._errors.seek(0)
            raise SystemExit(f"bench: an engine has ended:\n{self._errors.read()[-2000:]}")

    def kib(self) -> float:
        return float(psutil.Process(self._popen.pid).memory_full_info().uss) / 1024

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait()
        self._errors.close()
