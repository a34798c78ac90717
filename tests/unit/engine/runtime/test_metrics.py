"""The metrics of engines: what the publisher passes on, and when."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from interlock.engine.bus import Committed, Topic, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import UnreachableError
from interlock.engine.kafka.positions import Position
from interlock.engine.runtime import metrics as module
from interlock.engine.runtime.metrics import Publisher
from interlock.engine.runtime.reporting import EngineSize, EngineStatus

CONFIG = BusConfig(name="b", deployment="finance", client={"bootstrap.servers": "one:1"})
TAGS = {"bus": "b", "deployment": "finance"}


class Metrics:
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.counts: dict[str, list[int]] = {}
        self.gauges: dict[str, float] = {}
        self.times: dict[str, list[float]] = {}
        self.breaks = False

    def incr(self, stat: str, count: int, *, tags: dict[str, str]) -> None:
        if self.breaks:
            raise OSError("no route")
        assert tags == TAGS
        self.counts.setdefault(stat, []).append(count)

    def gauge(self, stat: str, value: float, *, tags: dict[str, str]) -> None:
        assert tags == TAGS
        self.gauges[stat] = value

    def timing(self, stat: str, dt: float, *, tags: dict[str, str]) -> None:
        assert tags == TAGS
        self.times.setdefault(stat, []).append(dt)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def status() -> EngineStatus:
    return EngineStatus()


@pytest.fixture
def publisher(metrics: Metrics, status: EngineStatus) -> Publisher:
    return Publisher(metrics, status, lambda: {"watchdog_restarts": 1}, lambda: CONFIG)


def test_counters_are_handed_over_as_what_came_since_the_last_time(
    publisher: Publisher, metrics: Metrics, status: EngineStatus
) -> None:
    status.stats.consumed = 5
    publisher.publish_counts()
    status.stats.consumed = 12
    publisher.publish_counts()
    publisher.publish_counts()
    assert metrics.counts["interlock.consumed"] == [5, 7, 0]
    assert metrics.counts["interlock.watchdog_restarts"] == [1, 0, 0]


def test_a_counter_is_there_before_anything_is_counted_and_never_decreases(
    publisher: Publisher, metrics: Metrics, status: EngineStatus
) -> None:
    """A first dead letter was no increase: the counter appeared with it."""
    publisher.publish_counts()
    assert {f"interlock.{name}" for name in module.COUNTERS} <= metrics.counts.keys()
    status.stats.dead_lettered = 3
    publisher.publish_counts()
    status.stats.dead_lettered = 1  # a transaction was aborted
    publisher.publish_counts()
    status.stats.dead_lettered = 4
    publisher.publish_counts()
    assert metrics.counts["interlock.dead_lettered"] == [0, 3, 0, 1]


def test_samples_are_handed_over_once_in_milliseconds_and_thinned_out_evenly(
    publisher: Publisher, metrics: Metrics, status: EngineStatus
) -> None:
    status.stats.transaction_s.append(0.25)
    status.stats.latency_s.extend(n / 1000 for n in range(10_000))
    publisher.publish_counts()
    publisher.publish_counts()
    assert metrics.times["interlock.transaction_time"] == [250.0]
    latencies = metrics.times["interlock.firing_latency"]
    assert len(latencies) == module.MOST_SAMPLES
    assert (latencies[0], latencies[-1]) == (0.0, 9999.0)
    assert latencies[module.MOST_SAMPLES // 2] == pytest.approx(5000, rel=0.02)


def test_the_size_of_the_engine_is_published(
    publisher: Publisher, metrics: Metrics, status: EngineStatus
) -> None:
    status.size = EngineSize(
        8, unread_partitions=1, unread_topics=2, open_keys=1000, registrations=40, late_timers=1
    )
    status.stats.recovery_s = 1.5
    publisher.publish_counts()
    assert metrics.gauges == {
        "interlock.partitions": 8,
        "interlock.unread_partitions": 1,
        "interlock.unread_topics": 2,
        "interlock.open_keys": 1000,
        "interlock.registrations": 40,
        "interlock.late_timers": 1,
        "interlock.recovery_time": 1500.0,
    }


def position(topic: str, committed: int | None, low: int, end: int) -> Position:
    known = None if committed is None else Committed(committed, "")
    return Position(TopicPartition(topic, 0), known, low, end, Topic("id", 1), listed=topic == "other")


def test_lag_is_the_groups_and_retention_used_that_of_the_worst_partition(
    publisher: Publisher, metrics: Metrics, status: EngineStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def positions(_admin: Any, _config: Any, listed: tuple[str, ...]) -> list[Position]:
        asked.append(listed)
        return [
            position("b-event", 90, 0, 100),
            position("other", 20, 10, 20),
            position("other", None, 0, 1000),  # no engine has opened it
            position("b-trigger", 7, 0, 12),
            position("b-trigger", None, 4, 12),  # nor this one, and it will read all of it
        ]

    monkeypatch.setattr(module, "Admin", lambda *_: object())
    monkeypatch.setattr(module, "positions", positions)
    status.size = EngineSize(topics=("other",))
    publisher.publish()
    assert asked == [("other",)]
    assert metrics.gauges["interlock.source_lag"] == 10
    assert metrics.gauges["interlock.trigger_lag"] == 5 + 8
    assert metrics.gauges["interlock.retention_used"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("committed", "low", "end", "used"),
    [(0, 0, 0, 0.0), (50, 0, 100, 0.5), (10, 40, 100, 1.0), (3, 9, 9, 1.0)],
)
def test_retention_is_used_up_when_unread_records_are_the_next_to_go(
    committed: int, low: int, end: int, used: float
) -> None:
    assert position("t", committed, low, end).retention_used == used


@pytest.mark.parametrize(
    ("topic", "committed", "lag"),
    [
        pytest.param("b-event", 30, 70, id="behind"),
        pytest.param("b-event", 100, 0, id="at the end"),
        pytest.param("b-event", None, 90, id="nothing committed"),
        pytest.param("b-event", 101, 90, id="beyond the end"),
        pytest.param("other", 30, 70, id="listed"),
        pytest.param("other", None, None, id="listed, nothing committed"),
    ],
)
def test_the_lag_without_an_offset_is_the_whole_partition_or_unknown(
    topic: str, committed: int | None, lag: int | None
) -> None:
    found = position(topic, committed, 10, 100)
    assert found.lag == lag
    if committed is None:
        assert found.retention_used == 0


def test_metrics_that_fail_are_logged_once_and_lose_no_count(
    publisher: Publisher, metrics: Metrics, status: EngineStatus, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    status.stats.consumed = 5
    metrics.breaks = True
    publisher.publish_counts()
    publisher.publish_counts()
    metrics.breaks = False
    publisher.publish_counts()
    assert metrics.counts["interlock.consumed"] == [5]
    assert len(caplog.records) == 1


def test_a_client_that_is_not_used_any_more_is_closed(
    metrics: Metrics, status: EngineStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[str] = []

    class Admin:
        def __init__(self, *_: Any) -> None:
            self.number = len(states)
            states.append("open")

        def close(self) -> None:
            states[self.number] = "closed"
            raise OSError("which is no reason to stop")

    fails = False

    def positions(*_: Any) -> list[Position]:
        if fails:
            raise UnreachableError("No answer.")
        return []

    monkeypatch.setattr(module, "Admin", Admin)
    monkeypatch.setattr(module, "positions", positions)
    config = CONFIG
    publisher = Publisher(metrics, status, dict, lambda: config)
    publisher.publish()
    publisher.publish()
    assert states == ["open"]
    config = BusConfig(name="b", deployment="finance", client={"bootstrap.servers": "two:2"})
    publisher.publish()
    assert states == ["closed", "open"]
    fails = True
    publisher.publish()
    assert states == ["closed", "closed"]
    fails = False
    publisher.publish()
    over = threading.Event()
    over.set()
    publisher.run(over)
    assert states == ["closed"] * 3
