"""Interlock's metrics: those of the page for operators, and those that the code publishes."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from interlock.engine.config import BusConfig
from interlock.engine.delivery.stats import DeliveryStats
from interlock.engine.runtime import metrics as of_engines
from interlock.engine.runtime.delivering import Delivering
from interlock.engine.runtime.delivery_metrics import DeliveryPublisher
from interlock.engine.runtime.metrics import Metrics, Publisher
from interlock.engine.runtime.reporting import EngineStatus
from interlock.engine.runtime.runtime import Runtime
from interlock.triggers.relay_counts import RelayCounts
from interlock.triggers.stats import count_acknowledged, listener_counter, request_counter

ROOT = Path(__file__).parents[2]
OPERATING = ROOT / "docs" / "operate" / "operating.md"
# Where Airflow's metrics are called. `published` runs all of it.
PUBLISHERS = {
    "engine/runtime/delivery_metrics.py",
    "engine/runtime/metrics.py",
    "triggers/relay_counts.py",
    "triggers/stats.py",
}
TAGS = {"bus": "b", "deployment": "d"}


def documented() -> dict[str, str]:
    """{metric: its kind} of the table in docs/operate/operating.md."""
    rows = re.findall(
        r"^\| (`interlock\..*?) \| (counter|timing|gauge)\b", OPERATING.read_text(), re.MULTILINE
    )
    return {name: kind for names, kind in rows for name in re.findall(r"`(interlock\.[\w.]+)`", names)}


class Recorder:
    """Keeps the kind and the tags of each metric, and passes it on to `receiver`, if there is one."""

    def __init__(self, receiver: Metrics | None = None) -> None:
        self.kinds: dict[str, str] = {}
        self.tags: dict[str, set[str]] = {}
        self._receiver = receiver

    def _take(self, stat: str, kind: str, tags: dict[str, str]) -> None:
        self.kinds[stat] = kind
        self.tags[stat] = set(tags)

    def incr(self, stat: str, count: int, *, tags: dict[str, str]) -> None:
        self._take(stat, "counter", tags)
        if self._receiver is not None:
            self._receiver.incr(stat, count, tags=tags)

    def gauge(self, stat: str, value: float, *, tags: dict[str, str]) -> None:
        self._take(stat, "gauge", tags)
        if self._receiver is not None:
            self._receiver.gauge(stat, value, tags=tags)

    def timing(self, stat: str, dt: float, *, tags: dict[str, str]) -> None:
        self._take(stat, "timing", tags)
        if self._receiver is not None:
            self._receiver.timing(stat, dt, tags=tags)


def published(monkeypatch: Any, receiver: Metrics | None = None) -> Recorder:
    """What the code publishes: every publisher runs, with samples of each timing. receiver: gets it too."""
    recorder, config = Recorder(receiver), BusConfig("b", "d", {"bootstrap.servers": "nowhere:1"})
    status = EngineStatus()
    status.stats.transaction_s.append(0.1)
    status.stats.latency_s.append(0.1)
    monkeypatch.setattr(of_engines, "Admin", lambda *_: None)
    monkeypatch.setattr(of_engines, "positions", lambda *_: [])
    Publisher(recorder, status, Runtime(config)._counts, lambda: config).publish()
    deliveries = DeliveryStats()
    deliveries.of("d/deliver/crm").accept(0.1)
    restarts = Delivering(config, _no_posts)._counts
    DeliveryPublisher(recorder, deliveries, restarts, lambda: config).publish()
    count_acknowledged(recorder, config, 1)
    request_counter(recorder, "b", "d")("/events", 202, 1)
    listener_counter(recorder, "b", "d")
    asyncio.run(_relay(recorder))
    return recorder


def _no_posts(*_: Any) -> Any:
    raise NotImplementedError


async def _relay(recorder: Recorder) -> None:
    counts = RelayCounts(recorder, {**TAGS, "dag_id": "relay"}, None)
    counts.begin()
    counts.written_in(0.1)
    counts.close()
