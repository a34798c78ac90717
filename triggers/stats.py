"""Airflow's own metrics, as a sink for the engine's: StatsD, DataDog or OpenTelemetry, as Airflow is set up.

Core's and not `airflow.sdk`'s: the triggerer sets up core's before it starts the process that runs triggers,
and the other there stays silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ..engine.config import BusConfig
    from ..engine.runtime.metrics import Sink


def airflow_stats() -> Sink | None:
    """The metrics of this process; None where this Airflow has none to offer."""
    try:
        from airflow.observability import stats
    except ImportError:
        return None
    return cast("Sink", _Stats(stats))


def initialised_stats() -> Sink | None:
    """As `airflow_stats`, for a process that Airflow has not set them up for."""
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


def task_stats() -> Sink:
    """The metrics of a task's process, which Airflow sets up apart from core's."""
    from airflow.sdk.observability import stats

    return cast("Sink", stats)


def count_acknowledged(sink: Sink | None, config: BusConfig, count: int) -> None:
    """Tell that so many firings were acknowledged, by whatever route."""
    if sink is not None and count:
        sink.incr("interlock.acknowledged", count, tags={"bus": config.name, "deployment": config.deployment})


class _Stats:
    """Adds the host to gauges, as Airflow's own gauges of a process have it."""

    def __init__(self, stats: Any) -> None:
        import socket

        self._stats, self._host = stats, {"hostname": socket.gethostname()}
        self.incr, self.timing = stats.incr, stats.timing

    def gauge(self, stat: str, value: float, *, tags: dict[str, str]) -> None:
        self._stats.gauge(stat, value, tags={**tags, **self._host})
