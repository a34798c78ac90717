"""What the tests of the trigger hop share: its committed log, and its inputs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from interlock import Event, event
from interlock.conditions import Condition
from interlock.engine.bus import Committed, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.protocol.context import EngineContext, EngineLimits
from interlock.engine.protocol.outputs import Outputs
from interlock.engine.protocol.parts import EngineParts
from interlock.engine.protocol.stats import Stats
from interlock.engine.protocol.tasks.start import TaskStart
from interlock.engine.protocol.tasks.trigger_task import TriggerTask
from interlock.engine.records import MatchRecord, MatchTarget, Registration, RegistrationKey, encode_json
from interlock.engine.registry.registry import Registry

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
TP = TopicPartition("b-trigger", 0)
STATE = TopicPartition("b-state", 0)
SUBSCRIPTIONS = TopicPartition("b-subscription", 0)
PAIR = event("x", by="data.k") & event("y", by="data.k")
EITHER = event("x") & (event("y") | event("z"))
TTL = 86_400_000
HALVES = ((0, "x"), (1, "y"))
TWO_PATHS = event("x", by="data.k") & event("x", by="data.l")


class Log:
    """What is committed: state records, firings, dead letters, and the offset with its metadata."""

    def __init__(self, registry: Registry | None = None, partitions: int = 1) -> None:
        self.registry = registry or Registry()
        self.partitions = partitions
        self.committed = Committed(0, "")
        self.states: list[Record] = []
        self.firings: list[dict[str, Any]] = []
        self.keys: list[bytes | None] = []
        self.dead: list[Any] = []
        self.commits = 0
        self.stats = Stats()

    def task(self) -> TriggerTask:
        """A new task, recovered from what is committed."""
        task = TriggerTask(TaskStart(TP, self.committed, self.partitions), self.context())
        for record in self.states:
            task.load(record)
        task.recovered()
        return task

    def context(self, registry: Registry | None = None) -> EngineContext:
        bus: Any = None  # a task reads and writes nothing itself
        context = EngineContext.of(bus, CONFIG, EngineParts(limits=EngineLimits(ttl_ms=TTL)), self.stats)
        return replace(context, registry=self.registry if registry is None else registry)

    def outputs(self) -> Outputs:
        return Outputs(CONFIG, 1)

    def commit(self, task: TriggerTask, outputs: Outputs) -> None:
        self.commits += 1
        task.commit_into(outputs, "me", self.commits)
        for o in outputs.records:
            if o.topic == "b-state":
                self.states.append(Record(STATE, len(self.states), 0, o.key, o.value, None))
            elif o.topic == "b-action":
                self.firings.append(json.loads(o.value or b""))
                self.keys.append(o.key)
            else:
                self.dead.append(o)
        self.committed = outputs.offsets[TP]
        task.committed()

    def run(self, *matches: MatchRecord) -> None:
        """All matches from the committed offset on, in one transaction."""
        task, outputs = self.task(), self.outputs()
        for n, match in enumerate(matches, self.committed.offset):
            task.process(at(n), match, outputs, 0)
        self.commit(task, outputs)

    def tick(self, until_ms: int, incomplete: bool = False) -> None:
        """Registrations applied and a tick, in one transaction."""
        task, outputs = self.task(), self.outputs()
        task.apply()
        assert task.tick(until_ms, outputs, until_ms, seen_by_all, incomplete)
        self.commit(task, outputs)

    def live_states(self) -> dict[bytes, bytes]:
        """The state topic as it is once compacted."""
        last = {r.key or b"": r.value for r in self.states}
        return {key: value for key, value in last.items() if value is not None}


def seen_by_all(_: int) -> bool:
    return True


def at(offset: int) -> Record:
    return Record(TP, offset, 0, None, b"", None)


def register(
    registry: Registry, offset: int, registration: Registration, nonce: str = "n", at_ms: int = 0
) -> Registration:
    key = RegistrationKey(registration.incarnation, nonce).encode()
    registry.apply(Record(SUBSCRIPTIONS, offset, at_ms, key, encode_json(registration), None))
    return registration


def unregister(registry: Registry, offset: int, registration: Registration) -> None:
    key = RegistrationKey(registration.incarnation, "n").encode()
    registry.apply(Record(SUBSCRIPTIONS, offset, 0, key, None, None))


def met(origin: int, made: Event, *targets: MatchTarget, partition: int = 0) -> MatchRecord:
    return MatchRecord(1, "b-event", partition, origin, 1000 + origin, made, list(targets))


def an_event(event_type: str, event_id: str, **data: Any) -> Event:
    return Event.of(event_type, "/s", id=event_id, data=data or None)


def durable(log: Log, condition: Condition = PAIR, *, offset: int = 0, **more: Any) -> Registration:
    return register(log.registry, offset, Registration.of("d", condition, None, 0, kind="durable", **more))


def log_of_durable(condition: Condition = PAIR, **more: Any) -> tuple[Log, Registration]:
    """A log, and the durable subscription of its registry."""
    log = Log()
    return log, durable(log, condition, **more)


def log_of_wait(condition: Condition, key: str | None = None, at_ms: int = 0) -> tuple[Log, Registration]:
    """A log, and the wait of its registry."""
    log = Log()
    return log, register(log.registry, 0, Registration.of("w", condition, key, 0), at_ms=at_ms)


def pair(d: Registration, origin: int, event_type: str, event_id: str, key: str) -> MatchRecord:
    number = 0 if event_type == "x" else 1
    return met(origin, an_event(event_type, event_id), MatchTarget(0, d.incarnation, (number,), key))


LATE = (event("x") & event("y")).expires(after="1h")
HOUR = 3_600_000
