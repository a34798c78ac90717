"""Opens an engine: prints its time, memory and open keys.

python -m bench.engine.opening SETTINGS
"""

from __future__ import annotations

import json
import time

import confluent_kafka  # noqa: F401  # the engine imports it when it starts, which should not be measured
import psutil
from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.protocol.loop import Engine

from .process import config_given


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
