"""An engine of a process of its own, from when it is made until it is open."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final, NamedTuple

from interlock.engine.config import BusConfig

_OPENING: Final = """
import json, sys, time
import confluent_kafka, psutil
from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.protocol.loop import Engine
config = BusConfig(**json.loads(sys.argv[1]))
began = time.perf_counter()
engine = Engine(KafkaBus(config), config)
while not (engine.is_open and engine.up_to_date):
    engine.run_pass()
took_s = time.perf_counter() - began
kib = psutil.Process().memory_full_info().uss / 1024
keys = sum(trigger.open_keys for trigger in engine.ownership.triggers.values())
print(json.dumps([took_s, engine.stats.recovery_s, kib, keys]))
engine.close()
"""


class Opened(NamedTuple):
    """took_s: of all of it, without imports. recovery_s: from the assignment of its partitions until it
    worked on them. kib: of the whole process. open_keys: those that it found."""

    took_s: float
    recovery_s: float
    kib: float
    open_keys: int


def opened(config: BusConfig) -> Opened:
    """Open one, and close it. An engine that ends ends the bench, with its last words."""
    form = json.dumps({"name": config.name, "client": dict(config.client)})
    done = subprocess.run([sys.executable, "-c", _OPENING, form], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: an engine has ended:\n{done.stderr[-2000:]}")
    return Opened(*json.loads(done.stdout))
