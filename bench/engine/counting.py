"""An engine that prints how many partitions it owns, once they count, and what it has consumed.

python -m bench.engine.counting SETTINGS
"""

from __future__ import annotations

from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.protocol.loop import Engine

from .process import config_given


def count(config: BusConfig) -> None:
    """Until it is killed."""
    engine, told = Engine(KafkaBus(config), config), (0, 0)
    while True:
        engine.run_pass()
        owns = len(engine.partitions) if engine.is_open and engine.up_to_date else told[0]
        now = owns, engine.stats.consumed
        if now != told:
            told = now
            print(*told, flush=True)


if __name__ == "__main__":
    count(config_given())
