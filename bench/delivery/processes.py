"""Processes of this folder: a deliverer, aiohttp alone, and a sink."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final, Self

import psutil

HOST: Final = "127.0.0.1"


class Process:
    """`python -m bench.delivery.MODULE SETTINGS`, while in its block. It talks in lines."""

    def __init__(self, module: str, **settings: Any) -> None:
        self._module = module
        self._popen = subprocess.Popen(
            [sys.executable, "-m", f"bench.delivery.{module}", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._process = psutil.Process(self._popen.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._popen.kill()
        self._popen.communicate()

    def line(self) -> str:
        """Its next line. Ends the bench if the process has ended."""
        assert self._popen.stdout is not None
        found = self._popen.stdout.readline()
        if not found:
            raise SystemExit(f"bench: {self._module} has ended")
        return found.strip()

    def tell(self, **what: object) -> None:
        """Sends it a line."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(f"{json.dumps(what)}\n")
        self._popen.stdin.flush()

    def cpu_s(self) -> float:
        """Processor time of all its threads so far."""
        times = self._process.cpu_times()
        return float(times.user + times.system)


def settings_given() -> dict[str, Any]:
    """What `Process` passed to this process."""
    found: dict[str, Any] = json.loads(sys.argv[1])
    return found
