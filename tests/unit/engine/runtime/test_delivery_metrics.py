"""Metrics of deliveries: what is published for each sink."""

from __future__ import annotations

import logging
import threading

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.delivery.stats import MOST_SAMPLES, DeliveryStats, SinkStats
from interlock.engine.runtime.delivery_metrics import DeliveryPublisher

CONFIG = BusConfig(name="b", deployment="finance", client={"bootstrap.servers": "one:1"})


class Metrics:
    """Keeps what it gets, as (metric, sink): values."""

    def __init__(self) -> None:
        self.got: dict[tuple[str, str], list[float]] = {}
        self.breaks = False

    def _take(self, stat: str, value: float, tags: dict[str, str]) -> None:
        if self.breaks:
            raise OSError("no route")
        sink = tags.get("sink", "")
        assert tags == {"bus": "b", "deployment": "finance"} | ({"sink": sink} if sink else {})
        self.got.setdefault((stat.removeprefix("interlock.delivery."), sink), []).append(value)

    def incr(self, stat: str, count: int, *, tags: dict[str, str]) -> None:
        self._take(stat, count, tags)

    def gauge(self, stat: str, value: float, *, tags: dict[str, str]) -> None:
        self._take(stat, value, tags)

    def timing(self, stat: str, dt: float, *, tags: dict[str, str]) -> None:
        self._take(stat, dt, tags)


def test_counters_are_published_once_and_gauges_each_time() -> None:
    stats, metrics = DeliveryStats(), Metrics()
    publisher = DeliveryPublisher(metrics, stats, dict, lambda: CONFIG)
    one, other = stats.of("one"), stats.of("other")
    one.accept(0.25)
    one.failed, one.paused, one.open, one.in_flight, one.oldest_age = 2, True, 5, 1, 7000
    other.given_up = 1
    publisher.publish()
    one.accept(0.5)
    one.paused = False
    publisher.publish()
    publisher.publish()
    assert metrics.got["accepted", "one"] == [1, 1, 0]
    assert metrics.got["failed", "one"] == [2, 0, 0]
    assert metrics.got["given_up", "other"] == [1, 0, 0]
    assert metrics.got["accepted", "other"] == [0, 0, 0], "the first delivery is an increase"
    assert metrics.got["latency", "one"] == [250, 500]
    assert metrics.got["paused", "one"] == [1, 0, 0]
    assert (metrics.got["open", "one"], metrics.got["in_flight", "one"]) == ([5] * 3, [1] * 3)
    assert metrics.got["oldest_age", "one"] == [7000] * 3


def test_the_restarts_of_the_process_are_published_even_if_it_knows_no_sink() -> None:
    """A deliverer that ends at each start measures nothing: only these counters show it."""
    metrics, restarts = Metrics(), 0
    publisher = DeliveryPublisher(metrics, DeliveryStats(), lambda: {"restarts": restarts}, lambda: CONFIG)
    publisher.publish()
    restarts = 3
    publisher.publish()
    assert metrics.got == {("restarts", ""): [0, 3]}


def test_an_error_of_the_metrics_is_logged_once_and_nothing_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "interlock.engine")
    stats, metrics = DeliveryStats(), Metrics()
    publisher = DeliveryPublisher(metrics, stats, dict, lambda: CONFIG)
    stats.of("one").accept(0)
    metrics.breaks = True
    publisher.publish()
    publisher.publish()
    assert [record.getMessage() for record in caplog.records] == [
        "Metrics of deliveries could not be published: OSError('no route')"
    ]
    metrics.breaks = False
    stop = threading.Event()
    stop.set()
    publisher.run(stop)  # what is left when the process ends
    assert metrics.got["accepted", "one"] == [1]


def test_samples_that_nobody_takes_are_bounded() -> None:
    stats = SinkStats()
    for _ in range(MOST_SAMPLES + 5):
        stats.accept(1.0)
    assert (stats.accepted, len(stats.latency_s)) == (MOST_SAMPLES + 5, MOST_SAMPLES)
