"""The time and memory of an engine in a new process until it is open."""

from __future__ import annotations

import json
import subprocess
from typing import NamedTuple

from interlock.engine.config import BusConfig

from .process import command


class Opened(NamedTuple):
    """took_s: in all, without imports. recovery_s: from the assignment of its partitions until they are open.
    kib: memory of the process. open_keys: how many it recovered."""

    took_s: float
    recovery_s: float
    kib: float
    open_keys: int


def opened(config: BusConfig) -> Opened:
    """Opens an engine and closes it. If its process fails, ends the bench with its last output."""
    done = subprocess.run(command("opening", config), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: an engine has ended:\n{done.stderr[-2000:]}")
    return Opened(*json.loads(done.stdout))
