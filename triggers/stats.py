"""Airflow's own metrics (StatsD, DataDog or OpenTelemetry), which receive the engine's.

It uses `airflow.observability`, which the triggerer sets up before it starts the process that runs triggers;
it does not set up `airflow.sdk.observability`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from ..events.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..engine.config import BusConfig
    from ..engine.runtime.metrics import Metrics

log = visible_logger(__name__)
LISTENER_OUTCOMES: Final = ("emitted", "failed", "lost")  # of `events.outbox.Outbox`


def airflow_stats() -> Metrics | None:
    """Returns the metrics of this process; None if this Airflow has none."""
    try:
        from airflow.observability import stats
    except ImportError:
        return None
    return cast("Metrics", _Stats(stats))


def initialised_stats() -> Metrics | None:
    """As `airflow_stats`, for a process in which Airflow has not set up metrics."""
    try:
        from airflow.configuration import conf
        from airflow.observability import stats
        from airflow.observability.metrics import stats_utils
    except ImportError:
        return None
    stats.initialize(
        factory=stats_utils.get_stats_factory(),
        export_legacy_names=conf.getboolean("metrics", "legacy_names_on", fallback=False),
    )
    return airflow_stats()


def task_stats() -> Metrics:
    """Returns the metrics of a task's process, which Airflow sets up in `airflow.sdk`."""
    from airflow.sdk.observability import stats

    return cast("Metrics", stats)


def count_acknowledged(metrics: Metrics | None, config: BusConfig, count: int) -> None:
    """Counts acknowledged firings. An error of Airflow's metrics is logged, and not raised."""
    if metrics is None or not count:
        return
    tags = {"bus": config.name, "deployment": config.deployment}
    try:
        metrics.incr("interlock.acknowledged", count, tags=tags)
    except Exception as e:  # noqa: BLE001  # the firings are acknowledged: the caller must not try again
        _log_uncounted("Acknowledged firings", repr(e))


@lru_cache(2)  # a line for each change of the error, however often something is counted
def _log_uncounted(what: str, error: str) -> None:
    log.warning("%s are not counted in Airflow's metrics: %s", what, error)


def request_counter(metrics: Metrics | None, bus: str, deployment: str) -> Callable[[str, int, int], None]:
    """Returns a function that counts a receiver's requests and events: (path, status, written events)."""
    tags = {"bus": bus, "deployment": deployment}

    def count(path: str, status: int, events: int) -> None:
        if metrics is not None:
            metrics.incr("interlock.receiver.requests", 1, tags={**tags, "path": path, "status": str(status)})
            metrics.incr("interlock.receiver.events", events, tags={**tags, "path": path})

    return count


def listener_counter(metrics: Metrics | None, bus: str, deployment: str) -> Callable[[str, int], None]:
    """Returns a function that counts the listener's events by what became of them: (outcome, number).

    Begins with 0 of each: who reads a counter that appears with its first increase sees none. An error of
    Airflow's metrics is logged, and not raised.
    """
    tags = {"bus": bus, "deployment": deployment}

    def count(outcome: str, number: int) -> None:
        if metrics is None:
            return
        try:
            metrics.incr(f"interlock.listener.{outcome}", number, tags=tags)
        except Exception as e:  # noqa: BLE001  # an error in metrics must not keep events from being emitted
            _log_uncounted("Events of the listener", repr(e))

    for outcome in LISTENER_OUTCOMES:
        count(outcome, 0)
    return count


class _Stats:
    """Adds the tag `hostname` to gauges, as Airflow does for its own gauges."""

    def __init__(self, stats: Any) -> None:
        import socket

        self._stats, self._host = stats, {"hostname": socket.gethostname()}
        self.incr, self.timing = stats.incr, stats.timing

    def gauge(self, stat: str, value: float, *, tags: dict[str, str]) -> None:
        self._stats.gauge(stat, value, tags={**tags, **self._host})
