"""Runs a process's deliverer in a thread, starts another one after an error, and stops it cleanly."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias

from ..config import BusConfig
from ..delivery.context import DelivererContext
from ..delivery.deliverer import Deliverer
from ..delivery.parts import PARTS, DelivererParts
from ..delivery.posts import Posts
from ..delivery.stats import DeliveryStats
from ..errors import EngineError
from ..kafka.topics import check
from ..log import log
from ..waiting.notices import NoticeBoard
from .delivery_metrics import DeliveryPublisher
from .loop_thread import LoopRun, LoopThread
from .loops import CHECK_S, Loops, MemberProcess, check_again
from .metrics import Metrics
from .watchdog import Watchdog

DELIVERER: Final = "The deliverer"
DRAIN_S: Final = 5.0
CLOSE_S: Final = 8.0  # for what follows the drain: cancelled deliveries, and leaving the group
# How long a pass waits for records while nothing is in flight. It notices a changed sink after that, at most.
IDLE_S: Final = 0.2
# How long firings may wait to be read while something is in flight. An answer ends this wait.
BUSY_S: Final = 0.01
# After so many new objects Python looks for garbage; default 700, in newer versions 2,000.
COLLECT_AFTER: Final = 10_000
MakePosts: TypeAlias = Callable[[BusConfig, Callable[[], None]], AbstractContextManager[Posts]]


def collect_seldom() -> None:
    """Let Python's garbage collector run less often. For a process that does nothing but deliver.

    Firings and requests come and go in the hundreds, and nearly all of their objects are freed without the
    collector. With the default it takes a tenth of a delivery's processor time.
    """
    _, *older = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *older)


@dataclass
class DelivererProcess(MemberProcess):
    """What the successive deliverers of a process share, and how they are made.

    stats: what all of them have counted. parts: what each is made of, and how many deliveries and how much
    memory it may have at a time. drain_s: how long deliveries in flight may take when the process stops.

    Tests inject faults by other `parts`, or by a subclass that makes another `Deliverer`.
    """

    stats: DeliveryStats = field(default_factory=DeliveryStats)
    parts: DelivererParts = PARTS
    drain_s: float = DRAIN_S

    def make_deliverer(self, context: DelivererContext, posts: Posts) -> Deliverer:
        return Deliverer(context, posts)


class Delivering(Loops):
    """The deliverer of one deployment in this process: `start`, and `stop` when the process ends.

    make_posts: makes the `Posts` of each deliverer, as a context manager. It gets the config, and a function
    that the `Posts` call, from any thread, when `Posts.ended` has something new. The exit of the context
    manager, when the deliverer ends, cancels what is in flight.

    What holds (docs/understand/engine/sinks.md):

    - Each firing for a sink of the deployment is accepted by it, or becomes a dead letter, in order within a
      lane, as long as one process of the deployment delivers. Any number of them share the partitions.
    - An error of Kafka ends a deliverer. Another one begins, after a pause that grows to 15 s, and delivers
      again what was in flight: at most one firing of each lane.
    - `stop` starts no delivery, waits up to `drain_s` for those in flight, acknowledges them and
      leaves the group: nothing that was answered in that time is delivered again.
    - A deliverer that makes no pass for a minute is replaced, and can acknowledge nothing more.

    `board` has notices of what is wrong. metrics: receives the metrics. After a change of the connection call
    `use`.
    """

    def __init__(
        self,
        config: BusConfig,
        make_posts: MakePosts,
        process: DelivererProcess | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._make_posts = make_posts
        self._process = process or DelivererProcess()
        self.stop_s = self._process.drain_s + CLOSE_S
        board = NoticeBoard()
        loops = [LoopThread(DELIVERER, self._run, config, board)]
        helpers: dict[str, Callable[[threading.Event], None]] = {}
        if metrics is not None:
            helpers["delivery-metrics"] = DeliveryPublisher(
                metrics, self._process.stats, self._counts, lambda: self.config
            ).run
        super().__init__(config, board, Watchdog(loops, self._process.end_process), helpers)

    def _counts(self) -> Mapping[str, int]:
        return {
            "restarts": sum(loop.failures for loop in self._loops),
            "watchdog_restarts": sum(loop.replaced for loop in self._loops),
        }

    def _run(self, run: LoopRun) -> None:
        run_deliverer(
            run.config,
            run,
            self._make_posts,
            run.report_healthy,
            process=self._process,
            may_drain=lambda: not run.abandoned,
        )


def run_deliverer(
    config: BusConfig,
    stop: threading.Event,
    make_posts: MakePosts,
    on_healthy: Callable[[], None] = lambda: None,
    *,
    process: DelivererProcess | None = None,
    may_drain: Callable[[], bool] = lambda: True,
) -> None:
    """Run one deliverer until `stop`. Raises the EngineError that ends it, or TopicsError for altered topics.

    on_healthy: called in each pass with open partitions. process: shared by the process's successive
    deliverers. may_drain: whether it waits for deliveries in flight when it stops. The thread's log
    lines carry the field `deliverer`.
    """
    process = process or DelivererProcess()
    config = config.of_deliverers
    check(config, dead_letters=False)
    checked = time.monotonic()
    bus = process.open_bus(config)
    try:
        ended = threading.Event()
        with make_posts(config, ended.set) as posts:
            environment = replace(process.parts.environment, wait=partial(_wait, ended))
            parts = replace(process.parts, environment=environment)
            context = DelivererContext.of(bus, config, parts, process.stats)
            deliverer = process.make_deliverer(context, posts)
            try:
                while not stop.is_set():
                    _pass(deliverer, ended)
                    if time.monotonic() - checked >= CHECK_S:
                        check_again(config)
                        checked = time.monotonic()
                    if deliverer.is_open:
                        on_healthy()
                _drain(deliverer, ended, process.drain_s if may_drain() else 0.0)
            finally:
                deliverer.close()
    finally:
        bus.close()
        process.closed(bus)


def _pass(deliverer: Deliverer, ended: threading.Event) -> None:
    """One pass, when something has arrived or is due, or after IDLE_S."""
    if deliverer.in_flight:
        _wait(ended, BUSY_S)
        deliverer.run_pass()
        return
    now = time.monotonic()
    due = deliverer.schedule.next_due(now)
    deliverer.run_pass(IDLE_S if due is None else min(IDLE_S, max(0.0, due - now)))


def _wait(ended: threading.Event, timeout_s: float) -> None:
    ended.wait(timeout_s)
    ended.clear()  # before the answers are taken


def _drain(deliverer: Deliverer, ended: threading.Event, drain_s: float) -> None:
    """Wait for deliveries in flight, and acknowledge those that end in time."""
    deliverer.stop()
    deadline = time.monotonic() + drain_s
    try:
        while not deliverer.is_idle and time.monotonic() < deadline:
            _pass(deliverer, ended)
    except EngineError as e:
        log.info("The deliverer could not acknowledge its last deliveries: %s", e)
        return
    if deliverer.in_flight:
        log.info(
            "%d deliveries did not end in %.0f s: the next owner makes them again.",
            deliverer.in_flight,
            drain_s,
        )
