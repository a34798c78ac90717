"""Metrics: the counters of a process's engines and the lag of their group, published as Airflow's metrics.

docs/operate/operating.md "Watching" lists them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Final, Protocol

from ..config import BusConfig
from ..errors import EngineError
from ..kafka.admin import Admin
from ..kafka.positions import Position, positions
from ..log import log
from ..protocol.stats import Stats
from .reporting import EngineStatus

EVERY_S: Final = 10.0
MOST_SAMPLES: Final = 200  # for each timing and interval, because a receiver may get a packet for each
# Each is published also while it is 0: who reads a counter that appears with its first increase sees none.
COUNTERS: Final = tuple(each.name for each in fields(Stats) if type(each.default) is int)
SIZES: Final = (
    "partitions",
    "unread_partitions",
    "unread_topics",
    "open_keys",
    "registrations",
    "late_timers",
)
SAMPLES: Final = {"transaction_s": "transaction_time", "latency_s": "firing_latency"}


class Metrics(Protocol):
    """What receives metrics, such as Airflow's `Stats`. `dt`: milliseconds."""

    def incr(self, stat: str, count: int, *, tags: dict[str, str]) -> None: ...

    def gauge(self, stat: str, value: float, *, tags: dict[str, str]) -> None: ...

    def timing(self, stat: str, dt: float, *, tags: dict[str, str]) -> None: ...


class Publisher:
    """Publishes every EVERY_S, in a thread of its own, with its own admin client.

    status: of the engines. counts: returns the runtime's counters. config: returns the current config.
    metrics: receives them. An error of it, or of the cluster, is logged once per reason and retried.
    """

    def __init__(
        self,
        metrics: Metrics,
        status: EngineStatus,
        counts: Callable[[], Mapping[str, int]],
        config: Callable[[], BusConfig],
    ) -> None:
        self._metrics, self._status, self._counts, self._config = metrics, status, counts, config
        self._published: dict[str, int] = {}
        self._admin: Admin | None = None
        self._admin_of: BusConfig | None = None
        self._logged = ""

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(EVERY_S):
            self.publish()
        self.publish_counts()
        self._close()

    def publish(self) -> None:
        """Publish all metrics."""
        self.publish_counts()
        try:
            self._publish_positions()
        except EngineError as e:  # the engine and the waits report it to the waiting tasks
            log.debug("The group's lag is not known: %s", e)
            self._close()
        except Exception as e:  # noqa: BLE001  # an error in metrics must not stop anything
            self._failed(e)
            self._close()

    def publish_counts(self) -> None:
        """Publish what this process counted since the last call."""
        try:
            self._publish_counts()
        except Exception as e:  # noqa: BLE001  # an error in metrics must not stop anything
            self._failed(e)

    def _failed(self, error: Exception) -> None:
        if (text := repr(error)) != self._logged:
            self._logged = text
            log.warning("Metrics could not be published; the next attempt follows: %s", text)

    def _publish_counts(self) -> None:
        stats = self._status.stats
        self._increments({name: getattr(stats, name) for name in COUNTERS})
        for name, metric in SAMPLES.items():
            samples: list[float] = getattr(stats, name)
            setattr(stats, name, [])
            for seconds in evenly(samples):
                self._metrics.timing(f"interlock.{metric}", seconds * 1000, tags=self._tags)
        self._increments(self._counts())
        size = self._status.size
        for name in SIZES:
            self._gauge(name, getattr(size, name))
        self._gauge("recovery_time", stats.recovery_s * 1000)

    def _increments(self, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            published = self._published.get(name, 0)
            more = max(0, count - published)  # a rollback takes back what was counted
            self._metrics.incr(f"interlock.{name}", more, tags=self._tags)
            self._published[name] = published + more

    def _publish_positions(self) -> None:
        config = self._config()
        if self._admin is None or self._admin_of is not config:
            self._close()
            self._admin, self._admin_of = Admin(config), config
        found = positions(self._admin, config, self._status.size.topics)
        trigger = config.topic("trigger")
        sources = [each for each in found if each.tp.topic != trigger]
        self._gauge("source_lag", _lag(sources))
        self._gauge("trigger_lag", _lag([each for each in found if each.tp.topic == trigger]))
        self._gauge("retention_used", max((each.retention_used for each in sources), default=0.0))

    def _close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            with suppress(Exception):  # an error while closing does not matter
                admin.close()

    def _gauge(self, name: str, value: float) -> None:
        self._metrics.gauge(f"interlock.{name}", value, tags=self._tags)

    @property
    def _tags(self) -> dict[str, str]:
        config = self._config()
        return {"bus": config.name, "deployment": config.deployment}


def _lag(of: list[Position]) -> int:
    return sum(each.lag or 0 for each in of)


def evenly(samples: list[float]) -> list[float]:
    """Returns at most MOST_SAMPLES of the samples, evenly spaced by rank, minimum and maximum included."""
    if len(samples) <= MOST_SAMPLES:
        return samples
    ranked, step = sorted(samples), (len(samples) - 1) / (MOST_SAMPLES - 1)
    return [ranked[round(i * step)] for i in range(MOST_SAMPLES)]
