"""A triggerer's runtime over brokers in memory, which can be unreachable and record their callers."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, ClassVar

from airflow.sdk import BaseHook, Connection
from interlock.conditions import Condition
from interlock.engine.bus import Bus, End, Output, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.kafka import clients, topics
from interlock.engine.kafka.clients import ClientErrors
from interlock.engine.kafka.reader import KafkaReader
from interlock.engine.protocol.loop import Engine
from interlock.engine.runtime import loop_thread, runtime  # all that makes clients
from interlock.engine.runtime.metrics import Metrics
from interlock.engine.runtime.runtime import EngineProcess, Runtime
from interlock.engine.waiting.notices import NoticeBoard
from interlock.engine.waiting.waits import Waits
from interlock.triggers import event as trigger_module
from interlock.triggers.event import EventTrigger

from tests.invariants.needs import Patch, unharmed
from tests.kit.bus import Alone, Fetching, SimulatedBus
from tests.kit.made_of import REAL, MadeOf
from tests.kit.pool import Pool

DEADLINE_S = 60.0


class Brokers:
    """The brokers of a process's clients. `callers`: the threads that used each kind of client."""

    def __init__(
        self, *, reachable: bool = True, client: Mapping[str, str] | None = None, made_of: MadeOf = REAL
    ) -> None:
        self.made_of = made_of
        self.pool = Pool(made_of=made_of)  # only its topics are used, not its engines
        self.reachable = reachable
        self.client = dict(client or {"bootstrap.servers": "nowhere:1"})
        self.lock = threading.RLock()
        self.callers: defaultdict[str, set[int]] = defaultdict(set)
        self.refused = 0
        self.made = 0
        self.failures: list[Exception] = []  # raised in the next passes of engines, one in each
        self.on_poll: Callable[[], None] = lambda: None
        self.on_committed: Callable[[Sequence[Output]], None] = lambda outputs: None

    @property
    def config(self) -> BusConfig:
        return BusConfig(name="b", deployment="d", client=self.client, connection="kafka_default")

    def request(self, who: str, config: BusConfig | None = None) -> None:
        """Records who calls. Refuses the request while the brokers are unreachable."""
        self.callers[who].add(threading.get_ident())
        if not self.reachable:
            self.refused += 1
            raise ClientErrors().unreachable(config or self.config, "no broker answers")

    def check(self, config: BusConfig, **_: object) -> dict[str, int]:
        self.request("check", config)
        return {config.topic(kind): 1 for kind in ("event", "trigger", "state", "action", "subscription")}

    def bus(self, config: BusConfig) -> _Bus:
        with self.lock:
            self.request("engine", config)
            self.made += 1
            return _Bus(self, f"b-engine-{self.made}")


class _Bus(SimulatedBus):
    """One request at a time: the threads of a process share the brokers."""

    def __init__(self, brokers: Brokers, name: str) -> None:
        self.brokers = brokers
        super().__init__(brokers.pool.cluster, Alone(brokers.pool.cluster), name)

    def step(self, what: str) -> None:
        self.brokers.request("engine")
        super().step(what)

    def poll(self, most: int, timeout_s: float) -> Any:
        self.brokers.on_poll()
        if self.brokers.failures:
            raise self.brokers.failures.pop(0)
        with self.brokers.lock:
            batch = super().poll(most, timeout_s)
        if not batch.records:
            threading.Event().wait(0.001)
        return batch

    def commit(self, *given: Any) -> int | None:
        with self.brokers.lock:
            appended = super().commit(*given)
        self.brokers.on_committed(given[0])
        return appended

    def close(self) -> None:
        with self.brokers.lock:
            super().close()


class _Reader:
    """The reader of waits. Like librdkafka's it finds nothing while the brokers are unreachable."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._fetching = Fetching(brokers.pool.cluster, Alone(brokers.pool.cluster))

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        self._fetching.assign(positions)

    def take(self, most: int, timeout_s: float) -> list[Record | End]:
        self._brokers.callers["reader"].add(threading.get_ident())
        taken: list[Record | End] = []
        if self._brokers.reachable:
            with self._brokers.lock:
                taken = self._fetching.take(most, strict=False)
        if not taken:
            threading.Event().wait(0.001)
        return taken

    def close(self) -> None:
        pass


class _Producer:
    """The producer of waits, and of tasks that acknowledge."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def produce(
        self, topic: str, value: bytes | None, key: bytes, partition: int = 0, on_delivery: Any = None
    ) -> None:
        self._brokers.callers["producer"].add(threading.get_ident())
        with self._brokers.lock:
            self._brokers.pool.write(TopicPartition(topic, partition), key, value)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=[0])})

    def poll(self, timeout_s: float) -> int:
        return 0

    def flush(self, timeout_s: float) -> int:
        return 0


class TaskLog:
    """The log of a waiting task."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, text: str, *given: object) -> None:
        self.lines.append(text % given)

    warning = info


class Process(EngineProcess):
    """A process whose engines use the brokers; its engines and waits are made of `brokers.made_of`."""

    def __init__(self, brokers: Brokers) -> None:
        super().__init__()
        self._brokers = brokers

    def make_bus(self, config: BusConfig) -> Bus:
        return self._brokers.bus(config)

    def make_engine(self, bus: Bus, config: BusConfig) -> Engine:
        made_of = self._brokers.made_of
        return made_of.engine(bus, config, stats=self.status.stats, parts=made_of.parts)

    def make_waits(self, config: BusConfig, board: NoticeBoard) -> Waits:
        return self._brokers.made_of.waits(config, board)


@contextmanager
def process(brokers: Brokers) -> Iterator[type[Runtime]]:
    """A triggerer's process with `brokers` as Kafka. At its end all that triggers started in it is stopped.

    Yields the class of its runtimes.
    """

    async def connection(conn_id: str) -> Connection:
        return Connection(conn_id=conn_id, conn_type="kafka", extra=json.dumps(brokers.client))

    def connect(kind: object, config: BusConfig, errors: object, **own: object) -> _Producer:
        return _Producer(brokers)

    class OfBrokers(Runtime):
        running: ClassVar[dict[tuple[int, str, str, str], Runtime]] = {}

        def __init__(self, config: BusConfig, metrics: Metrics | None = None, **given: Any) -> None:
            super().__init__(config, metrics, process=Process(brokers), **given)

    with Patch.context() as patch:
        patch.setattr(runtime, "Runtime", OfBrokers)
        patch.setattr(runtime, "has_engine", lambda config: False)
        patch.setattr(runtime.atexit, "register", lambda call: None)
        for name, real, ours in (
            ("KafkaReader", KafkaReader, lambda *_, **__: _Reader(brokers)),
            ("check", topics.check, brokers.check),
            ("connect", clients.connect, connect),
        ):
            for path, module in list(sys.modules.items()):  # wherever the engine's rooms have imported it
                if path.startswith("interlock.engine.") and getattr(module, name, None) is real:
                    patch.setattr(module, name, ours)
        patch.setattr(loop_thread, "MAX_PAUSE_S", 0.01)
        patch.setattr(loop_thread, "HEALTHY_AFTER_S", -1.0)
        patch.setattr(BaseHook, "aget_connection", connection)
        patch.setattr(trigger_module, "airflow_stats", lambda: None)
        try:
            yield OfBrokers
        finally:
            for running in OfBrokers.running.values():
                running.stop()


def a_trigger(condition: Condition, *, timed_out: bool = False, name: str = "d/dag/run/task") -> EventTrigger:
    """The trigger of a wait. timed_out: before it began, so it only looks for an earlier firing."""
    moment = datetime(2026, 1, 1, tzinfo=UTC).isoformat() if timed_out else None
    trigger = EventTrigger(name, condition.to_json(), None, 0, "kafka_default", "b", "d", timeout_at=moment)
    trigger._log = TaskLog()
    return trigger


async def until(what: str, fact: Callable[[], object], *given: asyncio.Future[Any]) -> None:
    """Waits until `fact` is true. AssertionError after the deadline, or if a given wait ends before.

    TypeError if one ended with that, as in `unharmed`.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + DEADLINE_S
    while not fact():
        ended = [wait for wait in given if wait.done()]
        for wait in ended:
            if isinstance(wait.exception(), TypeError):
                wait.result()
        assert not ended, f"the wait ended before {what}: {ended}"
        assert loop.time() < end, f"not within {DEADLINE_S:.0f} s: {what}"
        await asyncio.sleep(0.001)


def run_in_loop(work: Any) -> Any:
    """Returns the result of a coroutine; an exception is a failure of the check."""
    with unharmed("the wait"):
        return asyncio.run(asyncio.wait_for(work, DEADLINE_S))


async def first_of(trigger: EventTrigger) -> dict[str, Any]:
    """The payload of the one event of a trigger, whose run ends with it."""
    found = [event.payload async for event in trigger.run()]
    assert len(found) == 1
    payload: dict[str, Any] = found[0]
    return payload


@contextmanager
def all_logs() -> Iterator[list[str]]:
    """Everything that is logged inside, by anyone, at any level."""
    lines: list[str] = []

    class Collects(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(logging.Formatter().format(record))

    handler, root, own = Collects(), logging.getLogger(), logging.getLogger("interlock")
    before = own.level
    root.addHandler(handler)
    own.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        root.removeHandler(handler)
        own.setLevel(before)
