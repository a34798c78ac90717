"""What all parts of an engine share: bus, registry, counters, clocks and limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...conditions import MatcherIndex
from ..bus import Bus
from ..config import BusConfig
from ..errors import EngineError
from ..registry.registry import Registered, Registry
from .clock import BrokerClock
from .stats import Stats

if TYPE_CHECKING:  # its module imports this one
    from .parts import EngineParts

TTL_MS: Final = 30 * 24 * 3600 * 1000


@dataclass(frozen=True)
class Clocks:
    """The two clocks of the machine, in seconds. `wall`: since the epoch."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True)
class EngineLimits:
    """`ttl_ms`: how long a key without new matches stays open. `registry_records`: most to read at once."""

    ttl_ms: int = TTL_MS
    registry_records: int = 2000


@dataclass(frozen=True)
class EngineContext:
    """Shared by all parts of one engine. For speed, parts copy what they use for each record.

    `index`: the matchers of all registrations in `registry`. `clock`: the brokers' time. `wall`, `monotonic`:
    the machine's.
    """

    bus: Bus
    config: BusConfig
    parts: EngineParts
    registry: Registry
    index: MatcherIndex[Registered]
    stats: Stats
    clock: BrokerClock

    @classmethod
    def of(cls, bus: Bus, config: BusConfig, parts: EngineParts, stats: Stats | None = None) -> EngineContext:
        """A context with an empty registry. stats: those of an earlier engine, to continue."""
        return cls(
            bus,
            config,
            parts,
            parts.registry(),
            MatcherIndex(),
            Stats() if stats is None else stats,
            BrokerClock(parts.clocks.wall, parts.clocks.monotonic),
        )

    @property
    def wall(self) -> Callable[[], float]:
        return self.parts.clocks.wall

    @property
    def monotonic(self) -> Callable[[], float]:
        return self.parts.clocks.monotonic

    @property
    def limits(self) -> EngineLimits:
        return self.parts.limits

    @property
    def partitions(self) -> int:
        """How many partitions the trigger topic has. Raises EngineError before the bus record is read."""
        bus = self.registry.bus
        if bus is None:
            raise EngineError(
                f"Bus {self.config.name!r} has no bus record. Run: {self.config.command('topics create')}"
            )
        return bus.partitions
