"""The runtime of a process: one engine and one set of waits per bus and connection, each in its own thread.

The first trigger that runs in a process starts it; importing does not. Airflow forks, and a Kafka client does
not survive a fork, so runtimes are kept by process id.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ..bus import Bus
from ..config import BusConfig
from ..errors import EngineError
from ..kafka.admin import Admin
from ..kafka.topics import check
from ..log import log
from ..protocol.loop import Engine
from ..protocol.poison.suspects import SUSPECTS
from ..waiting.notices import NoticeBoard
from ..waiting.waits import COMPONENT as WAITS
from ..waiting.waits import Waits
from .failures import EngineFailures
from .loop_thread import LoopRun, LoopThread
from .loops import CHECK_S, Loops, MemberProcess, check_again
from .metrics import Metrics, Publisher
from .reporting import EngineStatus, Post, StatusReporter
from .watchdog import Watchdog

READ_AGAIN_S = 15.0
# A runtime that no wait uses ends when its engine fails for this long: its connection may be gone for good.
UNUSED_S = 600.0
ENGINE = "The engine"
_lock = threading.Lock()


@dataclass
class EngineProcess(MemberProcess):
    """What the successive engines of a process share, and how they and its waits are made.

    Tests inject faults by a subclass whose `make_engine` passes other `EngineParts`.
    """

    status: EngineStatus = field(default_factory=EngineStatus)

    def make_engine(self, bus: Bus, config: BusConfig) -> Engine:
        return Engine(bus, config, stats=self.status.stats)

    def make_waits(self, config: BusConfig, board: NoticeBoard) -> Waits:
        return Waits(config, board)


class Runtime(Loops):
    """An engine and the waits of one bus in this process. Use `Runtime.of`.

    metrics: receives the metrics. runs: "engine", "waits" or both. process: what makes the engines and
    the waits.
    """

    # By process id, bus, deployment and connection.
    running: ClassVar[dict[tuple[int, str, str, str], Runtime]] = {}

    def __init__(
        self,
        config: BusConfig,
        metrics: Metrics | None = None,
        *,
        runs: Literal["engine", "waits", "both"] = "both",
        process: EngineProcess | None = None,
    ) -> None:
        board = NoticeBoard()
        self._process = process or EngineProcess()
        self.waits = self._process.make_waits(config, board)
        self._read_again_at = 0.0
        self._used_at = time.monotonic()
        self._failures = EngineFailures(uuid.uuid4().hex[:12])
        loops = []
        if runs != "waits":
            loops.append(LoopThread(ENGINE, self._run_engine, config, board))
        if runs != "engine":
            loops.append(LoopThread(WAITS, self._run_waits, config, board))
        helpers: dict[str, Callable[[threading.Event], None]] = {}
        if metrics is not None:
            helpers["metrics"] = Publisher(
                metrics, self._process.status, self._counts, lambda: self.config
            ).run
        super().__init__(config, board, Watchdog(loops, self._process.end_process), helpers)

    @classmethod
    def of(cls, config: BusConfig, metrics: Metrics | None = None, *, with_engine: bool = True) -> Runtime:
        """The runtime of this bus and connection in this process; starts it if needed. Returns at once.

        If the connection's content has changed, the runtime creates new clients; open waits stay open. Open a
        wait within UNUSED_S: a runtime without waits ends if its engine fails. metrics: receives the metrics.
        with_engine: False for waits alone. Both matter only to the call that starts the runtime.
        """
        key = (os.getpid(), config.name, config.deployment, config.connection)
        with _lock:
            runtime = cls.running.get(key)
            if runtime is None:
                runtime = cls(config, metrics, runs="both" if with_engine else "waits")
                try:
                    runtime.start()
                except RuntimeError:  # no thread can be started: the next call tries again
                    runtime.ask_to_stop()
                    raise
                cls.running[key] = runtime
                atexit.register(runtime.stop)
            runtime._used_at = time.monotonic()
        runtime.use(config)
        return runtime

    def may_read_connection(self) -> bool:
        """Whether a wait with an error should read its connection again: True once every READ_AGAIN_S."""
        with self._lock:
            now = time.monotonic()
            if now < self._read_again_at:
                return False
            self._read_again_at = now + READ_AGAIN_S
            return True

    def _run_engine(self, run: LoopRun) -> None:
        def on_healthy() -> None:
            run.report_healthy()
            self._failures.healthy(run.config)

        try:
            run_engine(run.config, run, on_healthy, post=run.post, process=self._process)
        except Exception as e:
            self._failures.failed(run.config, e)
            self.end_if_unused(e)
            raise

    def end_if_unused(self, error: Exception) -> None:
        """End this runtime if its engine has failed for UNUSED_S and no wait has used it for as long.

        The next call of `of` starts another one.
        """
        with _lock:
            key = next((key for key, each in self.running.items() if each is self), None)
            unused = time.monotonic() - self._used_at >= UNUSED_S and not self.waits.in_use
            if key is None or not unused or self._failures.lasting_s < UNUSED_S:
                return
            del self.running[key]
        atexit.unregister(self.stop)
        log.warning(
            "No task waits on %s in this process, and its engine cannot run: %s The engine is stopped; the "
            "next wait starts another one.",
            self.config.describe(),
            error,
        )
        self.ask_to_stop()

    def _run_waits(self, run: LoopRun) -> None:
        self.waits.run(run, run.config, run.report_healthy)

    def _counts(self) -> Mapping[str, int]:
        return {
            "delivered": self.waits.delivered,
            "restarts": sum(loop.failures for loop in self._loops),
            "watchdog_restarts": sum(loop.replaced for loop in self._loops),
        }


def has_engine(config: BusConfig) -> bool:
    """Whether the bus has an engine. False if the cluster does not answer."""
    try:
        with closing(Admin(config)) as admin:
            return bool(admin.members())
    except EngineError:
        return False


def run_engine(
    config: BusConfig,
    stop: threading.Event,
    on_healthy: Callable[[], None] = lambda: None,
    *,
    post: Post = lambda _component, _text: None,
    process: EngineProcess | None = None,
) -> None:
    """Run one engine until `stop`. Raises the EngineError that ends it, or TopicsError for altered topics.

    on_healthy: called in each pass with open partitions. post: takes problems that do not end the engine.
    process: shared by the process's successive engines.

    The thread's log lines carry the field `engine`.
    """
    process = process or EngineProcess()
    check(config, dead_letters=False)
    checked = time.monotonic()
    bus = process.open_bus(config)
    try:
        engine = process.make_engine(bus, config)
    except BaseException:
        bus.close()
        process.closed(bus)
        raise
    reporter = StatusReporter(engine, post, process.status)
    try:
        while not stop.is_set():
            engine.run_pass()
            if stop.is_set():
                break
            if time.monotonic() - checked >= CHECK_S:
                check_again(config)
                checked = time.monotonic()
            reporter.report()
            if engine.is_open:
                on_healthy()
        _record_stop(engine)
    finally:
        reporter.close()
        engine.close()
        process.closed(bus)


def _record_stop(engine: Engine) -> None:
    """Record that the engine was stopped, so that the next owners do not look for a crash."""
    try:
        if engine.end():
            return
        reason = "The transaction was aborted."
    except EngineError as e:
        reason = str(e)
    log.warning(
        "The engine could not record that it was stopped. The next owners of its partitions take that for a "
        "crash: up to %s records of each become suspects, which costs little. %s",
        f"{SUSPECTS:,}",
        reason,
    )
