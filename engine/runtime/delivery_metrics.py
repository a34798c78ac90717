"""Metrics of deliveries, published for each HTTP sink (docs/operate/operating.md "Watching")."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from ..config import BusConfig
from ..delivery.stats import DeliveryStats, SinkStats
from ..log import log
from .metrics import EVERY_S, Metrics, evenly

COUNTERS: Final = ("accepted", "failed", "given_up")


class DeliveryPublisher:
    """Publishes every EVERY_S what a process's deliverers have counted, in a thread of its own.

    metrics: receives them. config: returns the current config. An error of `metrics` is logged once per
    reason.
    """

    def __init__(self, metrics: Metrics, stats: DeliveryStats, config: Callable[[], BusConfig]) -> None:
        self._metrics, self._stats, self._config = metrics, stats, config
        self._published: dict[tuple[str, str], int] = {}
        self._logged = ""

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(EVERY_S):
            self.publish()
        self.publish()

    def publish(self) -> None:
        """Publish what was counted since the last call, and what is open."""
        for subscription, stats in [*self._stats.sinks.items()]:
            try:
                self._publish(subscription, stats)
            except Exception as e:  # noqa: BLE001  # an error in metrics must not stop anything
                if (text := repr(e)) != self._logged:
                    self._logged = text
                    log.warning("Metrics of deliveries could not be published: %s", text)

    def _publish(self, subscription: str, stats: SinkStats) -> None:
        config = self._config()
        tags = {"bus": config.name, "deployment": config.deployment, "sink": subscription}
        for name in COUNTERS:
            count = getattr(stats, name)
            if (more := count - self._published.get((subscription, name), 0)) > 0:
                self._metrics.incr(f"interlock.delivery.{name}", more, tags=tags)
                self._published[subscription, name] = count
        samples, stats.latency_s = stats.latency_s, []
        for seconds in evenly(samples):
            self._metrics.timing("interlock.delivery.latency", seconds * 1000, tags=tags)
        self._metrics.gauge("interlock.delivery.in_flight", stats.in_flight, tags=tags)
        self._metrics.gauge("interlock.delivery.open", stats.open, tags=tags)
        self._metrics.gauge("interlock.delivery.paused", int(stats.paused), tags=tags)
