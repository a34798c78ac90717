"""A fake cluster, and engines in it whose pass is what a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interlock.engine.config import BusConfig
from interlock.engine.errors import UnreachableError
from interlock.engine.identity import ProcessName
from interlock.engine.runtime import loops
from interlock.engine.runtime.reporting import EngineStatus


class Cluster:
    """Buses that note what is asked of them, and an engine whose pass is what a test says."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.made = 0
        self.ids: list[str] = []
        self.ended: list[str] = []  # cleanly
        self.reachable = True
        self.run_pass: Callable[[], None] = lambda: None

    def stand_in(self, runtime: Any, patch: Callable[[Any, str, Any], None]) -> None:
        """Make the runtime's engines out of these fakes."""
        patch(runtime, "check", lambda config, **_: None)
        patch(loops, "KafkaBus", self.bus)
        patch(runtime, "Engine", _Engine)
        patch(runtime, "StatusReporter", _StatusReporter)

    def bus(self, config: BusConfig, identity: ProcessName) -> Any:
        self.made += 1
        self.ids.append(identity.next(config))
        return _Bus(self, f"id-{self.made}")


class _Bus:
    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self.cluster, self.transactional_id = cluster, transactional_id

    def fence(self, transactional_id: str) -> None:
        if not self.cluster.reachable:
            raise UnreachableError("no answer")
        self.cluster.log.append(f"{self.transactional_id} fences {transactional_id}")

    def close(self) -> None:
        self.cluster.log.append(f"{self.transactional_id} closes")


class _Engine:
    is_open = True

    def __init__(self, bus: _Bus, config: BusConfig, stats: Any) -> None:
        self.bus = bus
        bus.cluster.log.append(f"{bus.transactional_id} begins")

    def run_pass(self) -> None:
        self.bus.cluster.run_pass()

    def end(self) -> bool:
        self.bus.cluster.ended.append(self.bus.transactional_id)
        return True

    def close(self) -> None:
        self.bus.close()


class _StatusReporter:
    def __init__(self, engine: _Engine, post: Any, status: EngineStatus) -> None:
        self.cluster = engine.bus.cluster

    def report(self) -> None:
        self.cluster.log.append("looks")

    def close(self) -> None:
        pass
