"""The counters of a process's deliveries, by sink, which its runtime publishes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MOST_SAMPLES: Final = 10_000  # kept until they are taken


@dataclass
class SinkStats:
    """Counts of one sink's deliveries in this process.

    accepted, failed: deliveries by their answer. given_up: firings that became dead letters. in_flight, open,
    oldest_age, paused: at most a second old. oldest_age: ms since the append of the firing that has been open
    for longest; 0 without one. latency_s: seconds from the append of a firing to its acceptance; samples
    since they were last published.
    """

    accepted: int = 0
    failed: int = 0
    given_up: int = 0
    in_flight: int = 0
    open: int = 0
    oldest_age: int = 0
    paused: bool = False
    latency_s: list[float] = field(default_factory=list)

    def accept(self, latency_s: float) -> None:
        self.accepted += 1
        if len(self.latency_s) < MOST_SAMPLES:
            self.latency_s.append(latency_s)


class DeliveryStats:
    """Written by the deliverer's thread; another thread may read and publish it."""

    def __init__(self) -> None:
        self.sinks: dict[str, SinkStats] = {}

    def of(self, subscription: str) -> SinkStats:
        found = self.sinks.get(subscription)
        if found is None:
            found = self.sinks[subscription] = SinkStats()
        return found
