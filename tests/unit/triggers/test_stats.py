"""Airflow's metrics as a sink for the engine's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from airflow.observability import stats
from interlock.engine.config import BusConfig
from interlock.triggers import stats as module
from interlock.triggers.stats import airflow_stats, count_acknowledged, listener_counter


class Backend:
    """Replaces StatsD or OpenTelemetry."""

    def __init__(self) -> None:
        self.taken: list[tuple[Any, ...]] = []

    def incr(self, stat: str, count: int = 1, rate: float = 1, *, tags: Any = None) -> None:
        self.taken.append(("incr", stat, count, tags))

    def gauge(
        self, stat: str, value: float, rate: float = 1, delta: bool = False, *, tags: Any = None
    ) -> None:
        self.taken.append(("gauge", stat, value, tags))

    def timing(self, stat: str, dt: Any, *, tags: Any = None) -> None:
        self.taken.append(("timing", stat, dt, tags))


@pytest.fixture
def backend() -> Iterator[Backend]:
    made: Any = Backend()
    stats.initialize(factory=lambda: made, export_legacy_names=True)
    yield made
    from airflow._shared.observability.metrics.base_stats_logger import NoStatsLogger

    stats.initialize(factory=NoStatsLogger, export_legacy_names=False)


def test_metrics_go_to_the_triggerers_backend_and_gauges_name_their_host(
    backend: Backend,
) -> None:
    sink = airflow_stats()
    assert sink is not None
    tags = {"bus": "b", "deployment": "d"}
    sink.incr("interlock.consumed", 7, tags=tags)
    sink.gauge("interlock.open_keys", 3, tags=tags)
    sink.timing("interlock.transaction_time", 12.5, tags=tags)
    assert backend.taken[0] == ("incr", "interlock.consumed", 7, tags)
    assert backend.taken[2] == ("timing", "interlock.transaction_time", 12.5, tags)
    kind, name, value, gauge_tags = backend.taken[1]
    assert (kind, name, value) == ("gauge", "interlock.open_keys", 3)
    assert gauge_tags["hostname"]


def test_acknowledged_firings_are_counted_by_bus_if_there_is_a_sink(
    backend: Backend,
) -> None:
    config = BusConfig("b", "d", {"bootstrap.servers": "x:1"})
    for count in (3, 0):
        count_acknowledged(airflow_stats(), config, count)
    count_acknowledged(None, config, 1)
    assert backend.taken == [("incr", "interlock.acknowledged", 3, {"bus": "b", "deployment": "d"})]


def test_an_error_of_the_metrics_is_logged_once_and_does_not_repeat_an_acknowledgement(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended a watcher's stream, and a try of a dispatcher, whose firings were acknowledged."""

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no route\nto StatsD")

    module._log_uncounted.cache_clear()
    monkeypatch.setattr(backend, "incr", fail)
    for _ in range(2):
        count_acknowledged(airflow_stats(), BusConfig("b", "d", {"bootstrap.servers": "x:1"}), 3)
    assert caplog.messages == [
        r"Acknowledged firings are not counted in Airflow's metrics: OSError('no route\nto StatsD')"
    ]


def test_the_listeners_counters_begin_with_nothing_and_an_error_of_theirs_reaches_nobody(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    count = listener_counter(airflow_stats(), "b", "d")
    count("lost", 2)
    tags = {"bus": "b", "deployment": "d"}
    assert backend.taken == [
        *(("incr", f"interlock.listener.{name}", 0, tags) for name in ("emitted", "failed", "lost")),
        ("incr", "interlock.listener.lost", 2, tags),
    ]
    listener_counter(None, "b", "d")("lost", 2)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no route")

    module._log_uncounted.cache_clear()
    monkeypatch.setattr(backend, "incr", fail)
    count("lost", 1)
    assert caplog.messages == [
        "Events of the listener are not counted in Airflow's metrics: OSError('no route')"
    ]
