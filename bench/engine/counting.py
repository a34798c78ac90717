"""An engine that prints how many partitions it processes, and how many records it has consumed.

python -m bench.engine.counting SETTINGS
"""

from __future__ import annotations

from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.protocol.loop import Engine

from .process import config_given


def count(config: BusConfig) -> None:
    """Runs until it is killed."""
    engine, printed = Engine(KafkaBus(config), config), (0, 0)
    while True:
        engine.run_pass()
        owns = len(engine.partitions) if engine.is_open and engine.up_to_date else printed[0]
        now = owns, engine.stats.consumed
        if now != printed:
            printed = now
            print(*printed, flush=True)


if __name__ == "__main__":
    count(config_given())
