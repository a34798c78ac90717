"""The topics of a world's bus."""

from __future__ import annotations

from typing import Final

from interlock.engine.bus import TopicPartition

from tests.simulation.actors import CONFIG

EVENT: Final = CONFIG.topic("event")
TRIGGER: Final = CONFIG.topic("trigger")
STATE: Final = CONFIG.topic("state")
ACTION: Final = CONFIG.topic("action")
DEAD_LETTER: Final = CONFIG.topic("dead-letter")
REGISTRY: Final = TopicPartition(CONFIG.topic("subscription"), 0)
ORDERS: Final = "orders"  # a topic that the bus may list; its producers may set its timestamps
