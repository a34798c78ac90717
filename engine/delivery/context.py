"""What all parts of a deliverer share: bus, sinks, counters, clocks and limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import random
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Self

from ..bus import Bus
from ..config import BusConfig
from ..protocol.clock import BrokerClock
from .firings import subscription_of
from .sinks import Sinks
from .stats import DeliveryStats
from .window import WINDOW, FiringWindow

if TYPE_CHECKING:  # its module imports this one
    from .parts import DelivererParts


@dataclass(frozen=True)
class DeliveryLimits:
    """Limits of one deliverer. slots: how many deliveries at a time all its sinks share.

    window: how many open firings of a partition are in memory.
    """

    slots: int = 256
    window: FiringWindow = WINDOW


@dataclass(frozen=True)
class DelivererEnvironment:
    """What a deliverer gets from outside, so that tests can control it: its clocks, chance and waiting.

    clock: time of day in seconds. monotonic: seconds. chance: random numbers in [0, 1). wait: returns when a
    delivery has ended, or after the given seconds.
    """

    clock: Callable[[], float] = time
    monotonic: Callable[[], float] = monotonic
    chance: Callable[[], float] = random
    wait: Callable[[float], object] = lambda timeout_s: sleep(min(timeout_s, 0.01))


@dataclass(frozen=True)
class DelivererContext:
    """Shared by all parts of one deliverer. sinks: as the registry has them. clock: the brokers' time."""

    bus: Bus
    config: BusConfig
    parts: DelivererParts
    stats: DeliveryStats
    clock: BrokerClock
    sinks: Sinks = field(default_factory=Sinks)

    @classmethod
    def of(
        cls, bus: Bus, config: BusConfig, parts: DelivererParts, stats: DeliveryStats | None = None
    ) -> Self:
        """A context that knows no sink yet. stats: those of an earlier deliverer, to continue."""
        environment = parts.environment
        clock = BrokerClock(environment.clock, environment.monotonic)
        return cls(bus, config, parts, DeliveryStats() if stats is None else stats, clock)

    @property
    def limits(self) -> DeliveryLimits:
        return self.parts.limits

    @property
    def environment(self) -> DelivererEnvironment:
        return self.parts.environment

    @property
    def monotonic(self) -> Callable[[], float]:
        return self.parts.environment.monotonic

    @property
    def prefix(self) -> str:
        """What the names of the subscriptions of this deployment's sinks begin with."""
        return subscription_of(self.config.deployment, "")
