"""Opens an engine in a new process, which prints its time, memory and open keys.

python -m bench.engine.opening SETTINGS
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import NamedTuple

import confluent_kafka  # noqa: F401  # the engine imports it when it starts, which should not be measured
import psutil
from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.protocol.loop import Engine

from .process import command, config_given


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


def opening(config: BusConfig) -> tuple[float, float, float, int]:
    """The members of `Opened`."""
    began = time.perf_counter()
    engine = Engine(KafkaBus(config), config)
    while not (engine.is_open and engine.up_to_date):
        engine.run_pass()
    took_s = time.perf_counter() - began
    kib = psutil.Process().memory_full_info().uss / 1024
    keys = sum(trigger.open_keys for trigger in engine.ownership.triggers.values())
    found = took_s, engine.stats.recovery_s, kib, keys
    engine.close()
    return found


if __name__ == "__main__":
    print(json.dumps(opening(config_given())))
