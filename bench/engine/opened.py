"""What an engine of a process of its own takes until it is open."""

from __future__ import annotations

import json
import subprocess
from typing import NamedTuple

from interlock.engine.config import BusConfig

from .process import command


class Opened(NamedTuple):
    """took_s: of all of it, without imports. recovery_s: from the assignment of its partitions until it
    worked on them. kib: of the whole process. open_keys: those that it found."""

    took_s: float
    recovery_s: float
    kib: float
    open_keys: int


def opened(config: BusConfig) -> Opened:
    """Open one, and close it. An engine that ends ends the bench, with its last words."""
    done = subprocess.run(command("opening", config), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: an engine has ended:\n{done.stderr[-2000:]}")
    return Opened(*json.loads(done.stdout))
