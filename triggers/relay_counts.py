"""Metrics of a relay, published through Airflow's own (docs/operate/operating.md "Watching")."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from ..events.visible import visible

if TYPE_CHECKING:
    from ..engine.runtime.metrics import Metrics

EVERY_S: Final = 10.0
# Each is published also while it is 0: who reads a counter that appears with its first increase sees none.
COUNTERS: Final = ("messages", "events", "rejected", "trigger_failures", "write_failures")


class RelayCounts:
    """Counts what one relay does in its triggerer. Publishes it every EVERY_S, and when the relay ends.

    metrics: None if this Airflow has no metrics. For one event loop, in which no timer runs while nothing is
    counted. An error of Airflow's metrics is logged once and stops nothing.
    """

    def __init__(self, metrics: Metrics | None, tags: dict[str, str], log: Any) -> None:
        self._metrics, self._tags, self._log = metrics, tags, log
        self._counted: Counter[str] = Counter()
        self._write_ms: list[float] = []
        self._due: asyncio.TimerHandle | None = None
        self._failed = False

    def begin(self) -> None:
        """Publishes that nothing is counted yet."""
        self._publish()

    def add(self, name: str, count: int = 1) -> None:
        if self._metrics is not None and count:
            self._counted[name] += count
            self._publish_soon()

    def written_in(self, seconds: float) -> None:
        """Counts a write, from what the trigger fired to the acknowledgement of all its events."""
        if self._metrics is not None:
            self._write_ms.append(seconds * 1000)
            self._publish_soon()

    def close(self) -> None:
        """Publishes what is counted."""
        if self._due is not None:
            self._due.cancel()
            self._publish()

    def _publish_soon(self) -> None:
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(EVERY_S, self._publish)

    def _publish(self) -> None:
        self._due = None
        counted, self._counted = self._counted, Counter()
        write_ms, self._write_ms = self._write_ms, []
        if self._metrics is None:
            return
        from ..engine.runtime.metrics import evenly  # not needed to parse a DAG file

        try:
            for name in COUNTERS:
                self._metrics.incr(f"interlock.relay.{name}", counted[name], tags=self._tags)
            for each in evenly(write_ms):
                self._metrics.timing("interlock.relay.write_time", each, tags=self._tags)
        except Exception as e:  # noqa: BLE001  # an error in metrics must not stop anything
            if not self._failed:
                self._failed = True
                self._log.warning("Metrics of the relay could not be published: %s", visible(repr(e)))
