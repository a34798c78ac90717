"""Waiting tasks, the triggerers that wait for them, and the workers on which they resume.

What a triggerer and a worker do with Kafka is the engine's own code.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from itertools import count
from typing import Literal, NamedTuple

from interlock.conditions import Condition
from interlock.engine.errors import EngineError
from interlock.engine.records import ActionRecord, Registration, RegistrationKey
from interlock.engine.waiting.acknowledge import write
from interlock.engine.waiting.environment import WaitEnvironment
from interlock.engine.waiting.notices import Notice, NoticeBoard
from interlock.engine.waiting.waits import FiringForWait, Wait

from tests.kit.clients import SimulatedClients
from tests.kit.kafka import Cluster
from tests.kit.made_of import MadeOf
from tests.simulation.actors import CONFIG, AnyWorld, Process
from tests.simulation.topics import REGISTRY


@dataclass(eq=False)
class Task:
    """A task instance that waits. generation: how often it was cleared. trigger: its latest trigger's number.

    new: to be run, for the first time or again. scheduled: resumed, with its trigger's event.
    """

    name: str
    condition: Condition
    key: str | None
    back_ms: int
    since_ms: int | None = None
    generation: int = 0
    trigger: int = -1
    state: Literal["new", "deferred", "scheduled", "running", "done"] = "new"
    host: Triggerer | None = None
    resumed: Resumed | None = None
    worker: Worker | None = None

    @property
    def registration(self) -> Registration:
        assert self.since_ms is not None
        return Registration.of(self.name, self.condition, self.key, self.since_ms, generation=self.generation)


class YieldedEvent(NamedTuple):
    """A trigger's event. known: the registry keys of the wait that its triggerer had read."""

    trigger: int
    firing: FiringForWait
    known: frozenset[bytes]


class Resumed(NamedTuple):
    """A task's resumption. ends: of the action topic at that time. incarnation: of its wait."""

    task: str
    incarnation: str
    action: ActionRecord
    ends: tuple[int, ...]
    keys: tuple[str, ...]
    known: frozenset[bytes]


class Triggerer(Process):
    """A process with the engine's `Waits`. yielded: events that Airflow has not stored yet."""

    def __init__(self, number: int, world: AnyWorld, skew_s: float, made_of: MadeOf) -> None:
        super().__init__(f"t{number}", world, skew_s)
        self._made_of = made_of
        self._names = count()
        self._begin()

    def _begin(self) -> None:
        self.yielded: deque[YieldedEvent] = deque()
        self.open: dict[int, tuple[Task, Wait]] = {}  # by trigger
        self._stop = threading.Event()
        self._clients: SimulatedClients | None = None
        self.waits = self._made_of.waits(
            CONFIG,
            NoticeBoard(),
            self._connect,
            WaitEnvironment(self._clock, self._monotonic, lambda: f"{self.name}.{next(self._names)}"),
        )

    def boot(self) -> None:
        self._begin()
        super().boot()

    def stop(self) -> None:
        super().stop()
        self._stop.set()

    def crash(self) -> None:
        if self.at.startswith(("writes", "awaits")):
            self.seen[f"crash while it {self.at}"] += 1
        super().crash()

    def run_into(self, steps: int) -> None:
        """Runs until just before or after the write that is `steps` ahead; gives up after a while."""
        for _ in range(30):
            self.run(0)
            if self.state != "up":
                return
            if self.at.startswith(("writes", "awaits")):
                steps -= 1
                if steps < 0:
                    return

    @property
    def _asks(self) -> bool:
        return self.at != "starts again"

    @property
    def registry_read(self) -> int:
        """The registry position before the records that it works on now."""
        reader = None if self._clients is None else self._clients.following
        return 0 if reader is None else reader.before.get(REGISTRY, 0)

    def take(self, task: Task) -> None:
        """A trigger begins, unless it runs here already."""
        number, incarnation = task.trigger, task.registration.incarnation
        if number in self.open:
            return

        def deliver(item: FiringForWait | Notice) -> None:
            if isinstance(item, FiringForWait):
                known = keys_in_force(self.cluster, incarnation, self.registry_read)
                self.yielded.append(YieldedEvent(number, item, frozenset(known)))
                self.say(f"gets the firing {item.action.firing.id[:6]} of {task.name}")

        self.open[number] = task, self.waits.open(task.registration, deliver)

    def _connect(self, _: object) -> SimulatedClients:
        self._clients = self._made_of.clients(CONFIG, self.cluster, self)
        return self._clients

    def _main_once(self) -> None:
        try:
            self.waits.run(self._stop)
        except EngineError as e:
            self.say(f"fails: {type(e).__name__}: {e}")
            self.seen[f"waits ended by {type(e).__name__}"] += 1


class Worker(Process):
    """A process with a task that was resumed: it acknowledges."""

    def __init__(self, task: Task, world: AnyWorld, *, by_chance: bool) -> None:
        super().__init__(f"{task.name}'s worker", world)
        assert task.resumed is not None
        self.resumed = task.resumed
        self.acknowledged = False
        self.by_chance = by_chance

    def _main_once(self) -> None:
        try:
            clients = SimulatedClients(CONFIG, self.cluster, self)
            write(CONFIG, clients, (self.resumed.action,), self.resumed.keys)
            self.acknowledged = True
        except EngineError as e:
            self.say(f"could not acknowledge, which changes nothing for the task: {e}")
            self.seen["firing that could not be acknowledged"] += 1
        self._stopping = True

    def crash(self) -> None:
        if self.at.startswith(("writes", "awaits")):
            self.seen[f"crash while it {self.at}"] += 1
        super().crash()


def keys_in_force(cluster: Cluster, incarnation: str, below: int) -> list[bytes]:
    """The registry keys of an incarnation whose last value before this offset is not null."""
    keys: dict[bytes, bool] = {}
    for offset, entry in cluster.topics[REGISTRY.topic].logs[0].history():
        if offset >= below:
            break
        key = RegistrationKey.decode(entry.key or b"")
        if key is not None and key.incarnation == incarnation:
            keys[entry.key or b""] = entry.value is not None
    return [key for key, stands in keys.items() if stands]
