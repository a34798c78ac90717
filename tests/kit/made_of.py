"""The classes that the engines, waits and brokers of a test are made of: faults are planted here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from interlock.engine.protocol.loop import Engine
from interlock.engine.protocol.parts import PARTS, EngineParts
from interlock.engine.runtime.loop_thread import LoopThread
from interlock.engine.waiting.waits import Waits

from tests.kit.bus import SimulatedBus
from tests.kit.clients import SimulatedClients
from tests.kit.kafka import Cluster


@dataclass(frozen=True)
class MadeOf:
    """The classes of engines, of waits, and of the brokers in memory: a planted fault replaces one of them.

    See `interlock.engine.protocol.parts`.
    """

    engine: type[Engine] = Engine
    parts: EngineParts = PARTS
    bus: type[SimulatedBus] = SimulatedBus
    cluster: type[Cluster] = Cluster
    waits: type[Waits] = Waits
    clients: type[SimulatedClients] = SimulatedClients  # of waits
    loop_thread: type[LoopThread] = LoopThread


REAL: Final = MadeOf()
