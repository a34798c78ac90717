"""A bus of its own for each test, engines in threads and in processes, and the records of its topics."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from interlock import Condition, Event
from interlock.engine.bus import TopicPartition as Place
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError
from interlock.engine.kafka.admin import Admin
from interlock.engine.kafka.topics import bus_record, create, write_bus_record, write_registry
from interlock.engine.records import Registration, RegistrationKey, ResumeRecord, encode_json, registry_key
from interlock.engine.runtime.runtime import Runtime, run_engine
from interlock.engine.waiting.notices import Notice, NoticeBoard
from interlock.engine.waiting.waits import FiringForWait, Waits
from interlock.events import Emitter

from local.topics import Record, read_all

DEADLINE_S = 40.0
ENGINE_PROCESS = """
import json, logging, sys, threading
from interlock.engine.config import BusConfig
from interlock.engine.runtime.runtime import Runtime
logging.basicConfig(stream=sys.stderr, level=logging.INFO)
Runtime(BusConfig(**json.loads(sys.argv[1]))).start()
threading.Event().wait()
"""


@dataclass(eq=False)
class OpenWait:
    """A wait as a trigger has one; keeps what was delivered."""

    registration: Registration
    eventually: Callable[..., Any]
    notices: list[str | None] = field(default_factory=list)
    firings: list[FiringForWait] = field(default_factory=list)

    def __call__(self, item: FiringForWait | Notice) -> None:
        if isinstance(item, Notice):
            self.notices.append(item.text)
        else:
            self.firings.append(item)

    def firing(self) -> FiringForWait:
        return self.eventually(
            f"{self.registration.subscription} fires", lambda: self.firings and self.firings[0]
        )


@contextmanager
def running(config: BusConfig) -> Iterator[Runtime]:
    """The runtime of a process, with its threads."""
    runtime = Runtime(config)
    runtime.start()
    try:
        yield runtime
    finally:
        runtime.stop()


@contextmanager
def in_thread(name: str, work: Callable[[threading.Event], object]) -> Iterator[threading.Thread]:
    """A thread that works until the end of the block, where its event is set."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,), name=name)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join(30)


def set_topic(admin: AdminClient, topic: str, name: str, value: str) -> None:
    """Alter one of the topic's settings, as an administrator does."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


class Bench:
    """One bus, and all that a test does with it."""

    def __init__(self, config: BusConfig, partitions: int, eventually: Callable[..., Any]) -> None:
        self.config, self.partitions = config, partitions
        self._eventually = eventually
        self.stack = ExitStack()
        self._emitter: Emitter | None = None
        self.admin = AdminClient(dict(config.client))

    # -- producers

    def emit(self, event_type: str, **arguments: Any) -> tuple[str, int, int]:
        if self._emitter is None:
            self._emitter = self.stack.enter_context(Emitter(self.config.client, self.config.topic("event")))
        arguments.setdefault("source", "/test")
        return self._emitter.emit(Event.of(event_type, **arguments))

    # -- waiters

    @contextmanager
    def waiting(self) -> Iterator[Callable[..., OpenWait]]:
        """A process's waits; gives a function that opens one."""
        waits = Waits(self.config, NoticeBoard())

        def open_wait(
            subscription: str, condition: Condition, key: str | None = None, since_ms: int = 0
        ) -> OpenWait:
            wait = OpenWait(Registration.of(subscription, condition, key, since_ms), self._eventually)
            waits.open(wait.registration, wait)
            return wait

        with in_thread("waits", waits.run):
            yield open_wait

    # -- durable subscriptions, and what an administrator writes

    def subscribe(self, name: str, condition: Condition, since_ms: int = 0, **limits: Any) -> Registration:
        """Register a durable subscription."""
        registration = Registration.of(name, condition, None, since_ms, kind="durable", **limits)
        key = RegistrationKey(registration.incarnation, "test").encode()
        write_registry(self.config, {key: encode_json(registration)})
        return registration

    def eventually_fired(self, name: str, count: int) -> list[dict[str, Any]]:
        """The firings of a subscription, once there are so many; in the order of their times."""
        return self._eventually(
            f"{name} fires {count} times",
            lambda: (
                len(found := [f for f in self.firings() if f["subscription"] == name]) >= count
                and sorted(found, key=lambda f: f["firing"]["fired_at"])
            ),
        )

    def list_topics(self, *names: str) -> None:
        """Let the bus read these topics beside its own."""
        record = bus_record(self.config)
        write_bus_record(self.config, msgspec.structs.replace(record, topics=names, cloudevents=names))

    def resume(self, kind: str, partition: int) -> None:
        """Lets a partition that stopped continue at its first record."""
        topic = self.config.topic(kind)
        found = Admin(self.config)
        tp = Place(topic, partition)
        known = found.topics([topic])[topic]
        record = ResumeRecord(topic_id=known.id, offset=found.start_offsets([tp])[tp])
        write_registry(self.config, {registry_key("resume", topic, partition): encode_json(record)})

    def partition_of(self, key: str) -> int:
        """The partition of the event topic on which events with this record key lie."""
        [found] = {r.partition for r in self.records("event") if r.key == key.encode()} or {-1}
        return found

    # -- engines

    @contextmanager
    def engine(self, *, allow_restarts: bool = False) -> Iterator[None]:
        """An engine in a thread, started again when it ends with an EngineError, as the runtime does.

        The test fails at the end of the block if that happened, unless it allows it.
        """
        ended: list[EngineError] = []

        def life(stop: threading.Event) -> None:
            while not stop.is_set():
                try:
                    run_engine(self.config, stop)
                except EngineError as e:
                    ended.append(e)
                    stop.wait(0.5)

        with in_thread("engine", life) as thread:
            yield
        assert not thread.is_alive(), "the engine does not stop"
        assert allow_restarts or not ended, f"the engine was restarted after: {ended}"

    def engine_process(self) -> subprocess.Popen[bytes]:
        """An engine in a process of its own, killed at the end of the test if it still runs."""
        return self.process(ENGINE_PROCESS)

    def process(self, program: str, *arguments: str, stdout: Any = None) -> subprocess.Popen[bytes]:
        """A Python program with the bus as its first argument, killed at the end of the test."""
        command = [sys.executable, "-c", program, self.json(), *arguments]
        process = subprocess.Popen(command, stdout=stdout)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def json(self) -> str:
        """The arguments of its `BusConfig`."""
        config = self.config
        form = {"name": config.name, "deployment": config.deployment, "client": dict(config.client)}
        return json.dumps(form)

    @staticmethod
    def sigkill(process: subprocess.Popen[bytes]) -> None:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    # -- the log

    def records(self, kind: str) -> list[Record]:
        """All committed records of one of the bus's topics, read by a consumer that is not Interlock's."""
        found = read_all(self.config.bootstrap_servers, self.config.topic(kind), DEADLINE_S)
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def firings(self) -> list[dict[str, Any]]:
        """Every firing that was ever written, repeats included."""
        forms = [record.json() for record in self.records("action")]
        return [form for form in forms if form and form["state"] == "fired"]

    def committed(self, kind: str, partition: int) -> int:
        """The committed offset of the engines' group, asked for by a client that is not in it."""
        consumer = Consumer({**self.config.client, "group.id": self.config.group})
        [found] = consumer.committed([TopicPartition(self.config.topic(kind), partition)], timeout=10)
        consumer.close()
        return found.offset

    def delete_records(self, kind: str) -> None:
        """Remove all there is in a topic, as retention would."""
        topic = self.config.topic(kind)
        futures = self.admin.delete_records([TopicPartition(topic, p, -1) for p in range(self.partitions)])
        for future in futures.values():
            future.result()


@pytest.fixture
def bench(
    bootstrap_servers: str, unique_name: Callable[[str], str], eventually: Callable[..., Any]
) -> Iterator[Bench]:
    """A new bus with four partitions on the session's broker."""
    config = BusConfig(name=unique_name("bus"), client={"bootstrap.servers": bootstrap_servers})
    create(config, partitions=4)
    made = Bench(config, 4, eventually)
    with made.stack:
        yield made
