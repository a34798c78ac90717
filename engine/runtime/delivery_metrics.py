"""Metrics of deliveries, published for each HTTP sink (docs/operate/operating.md "Watching")."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ..config import BusConfig
from ..delivery.stats import DeliveryStats, SinkStats
from ..log import log
from .metrics import EVERY_S, Metrics, evenly

COUNTERS: Final = ("accepted", "failed", "given_up")  # published also while 0, as those of engines
GAUGES: Final = ("in_flight", "open", "oldest_age", "paused")


class DeliveryPublisher:
    """Publishes every EVERY_S what a process's deliverers have counted, in a thread of its own.

    metrics: receives them. counts: returns the runtime's counters. config: returns the current config. An
    error of `metrics` is logged once per reason.
    """

    def __init__(
        self,
        metrics: Metrics,
        stats: DeliveryStats,
        counts: Callable[[], Mapping[str, int]],
        config: Callable[[], BusConfig],
    ) -> None:
        self._metrics, self._stats, self._counts, self._config = metrics, stats, counts, config
        self._published: dict[tuple[str, str], int] = {}
        self._logged = ""

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(EVERY_S):
            self.publish()
        self.publish()

    def publish(self) -> None:
        """Publish what was counted since the last call, and what is open."""
        config = self._config()
        tags = {"bus": config.name, "deployment": config.deployment}
        self._guarded(lambda: self._increments(self._counts(), tags))
        for subscription, stats in [*self._stats.sinks.items()]:
            of_sink = {**tags, "sink": subscription}
            self._guarded(partial(self._publish, stats, of_sink))

    def _guarded(self, publish: Callable[[], None]) -> None:
        try:
            publish()
        except Exception as e:  # noqa: BLE001  # an error in metrics must not stop anything
            if (text := repr(e)) != self._logged:
                self._logged = text
                log.warning("Metrics of deliveries could not be published: %s", text)

    def _increments(self, counts: Mapping[str, int], tags: dict[str, str]) -> None:
        for name, count in counts.items():
            counted = name, tags.get("sink", "")
            more = count - self._published.get(counted, 0)
            self._metrics.incr(f"interlock.delivery.{name}", more, tags=tags)
            self._published[counted] = count

    def _publish(self, stats: SinkStats, tags: dict[str, str]) -> None:
        self._increments({name: getattr(stats, name) for name in COUNTERS}, tags)
        samples, stats.latency_s = stats.latency_s, []
        for seconds in evenly(samples):
            self._metrics.timing("interlock.delivery.latency", seconds * 1000, tags=tags)
        for name in GAUGES:
            self._metrics.gauge(f"interlock.delivery.{name}", int(getattr(stats, name)), tags=tags)
