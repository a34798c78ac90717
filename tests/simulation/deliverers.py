"""Deliverers in a simulated world: processes that deliver, and the network between them and sinks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final, Protocol

from interlock.engine.bus import Committed, Output, TopicPartition
from interlock.engine.delivery.answers import Answer
from interlock.engine.delivery.context import DelivererContext, DelivererEnvironment, DeliveryLimits
from interlock.engine.delivery.deliverer import Deliverer
from interlock.engine.delivery.parts import PARTS, DelivererParts
from interlock.engine.delivery.posts import Delivery, Ended
from interlock.engine.delivery.window import FiringWindow
from interlock.engine.errors import EngineError, TransactionAborted

from tests.kit.bus import SimulatedBus
from tests.kit.kafka import Cluster
from tests.simulation.actors import CONFIG, Process
from tests.simulation.topics import DEAD_LETTER

SMALL: Final = DeliveryLimits(slots=2, window=FiringWindow(sink=6, lane=2, sink_bytes=1 << 20, noted=12))
USUAL: Final = DeliveryLimits(slots=8)


class BusThatMayRefuse(SimulatedBus):
    """Refuses transactions with records of the topics that its world says."""

    def commit(
        self, outputs: Sequence[Output], offsets: Mapping[TopicPartition, Committed], membership: object
    ) -> int | None:
        host: Any = self.host
        for topic in sorted(host.world.refused & {each.topic for each in outputs}):
            host.note("dead letter refused" if topic == DEAD_LETTER else "reply refused")
            raise TransactionAborted(f"Transaction aborted: records of {topic} are refused.")
        return super().commit(outputs, offsets, membership)


@dataclass(frozen=True)
class DeliveryMadeOf:
    """The classes of deliverers and brokers: a planted fault replaces one of them."""

    deliverer: type[Deliverer] = Deliverer
    parts: DelivererParts = PARTS
    bus: type[SimulatedBus] = BusThatMayRefuse
    cluster: type[Cluster] = Cluster


@dataclass(eq=False)
class Flight:
    """One delivery. life: the deliverer that sent it. owner: whether its process owned the partition then.

    generation: of that process's membership.
    """

    number: int
    life: str
    delivery: Delivery
    owner: bool
    generation: int
    host: Posts | None
    arrived: bool = False
    answer: Answer | None = None

    @property
    def key(self) -> bytes:
        return self.delivery.firing.key

    @property
    def tp(self) -> TopicPartition:
        return self.delivery.firing.record.source


class Network(Protocol):
    """What deliverers need of their world. refused: topics to which the brokers let nothing be written."""

    cluster: Cluster
    chance: Random
    seen: Counter[str]
    flights: list[Flight]
    refused: frozenset[str]

    def say(self, what: str) -> None: ...

    def sent(self, flight: Flight) -> None:
        """Checks what leaves a process."""


@dataclass(eq=False)
class Posts:
    """The deliveries of one deliverer."""

    process: DeliveryProcess
    life: str
    answers: list[Ended] = field(default_factory=list)

    def start(self, delivery: Delivery) -> None:
        process = self.process
        process.pause("sends")
        owner, generation = process.owns(delivery.firing.record.source)
        flight = Flight(delivery.number, self.life, delivery, owner, generation, self)
        process.world.flights.append(flight)
        process.world.sent(flight)

    def ended(self) -> list[Ended]:
        ended, self.answers = self.answers, []
        return ended


class DeliveryProcess(Process):
    """A process with a deliverer."""

    def __init__(
        self, number: int, world: Network, skew_s: float, limits: DeliveryLimits, made_of: DeliveryMadeOf
    ) -> None:
        super().__init__(f"d{number}", world, skew_s)
        self.world = world
        self._made_of, self._limits = made_of, limits
        self._lives = 0
        self.bus: SimulatedBus | None = None
        self.posts: Posts | None = None
        self.deliverer: Deliverer | None = None

    @property
    def _asks(self) -> bool:
        return self.bus is not None

    def owns(self, tp: TopicPartition) -> tuple[bool, int]:
        """(Whether it has the partition in the present generation of the group, its own generation)."""
        group, bus = self.cluster.group, self.bus
        if bus is None:
            return False, -1
        member = group.members.get(bus.member or "")
        owner = member is not None and bus.generation == group.generation and tp in member.assignment
        return owner, bus.generation

    def crash(self) -> None:
        self.seen[f"crash while it {self.at}"] += 1
        if self.bus is not None:
            self.bus.dead = True
        super().crash()
        self._end()

    def _end(self) -> None:
        for flight in self.world.flights:
            if flight.host is self.posts:
                flight.host = None
        self.bus = self.posts = self.deliverer = None

    def _main(self) -> None:
        try:
            super()._main()
        except RuntimeError:
            if self.bus is None or not self.bus.dead:
                raise

    def _main_once(self) -> None:
        self._lives += 1
        life = f"{self.name}.{self._lives}"
        bus: SimulatedBus | None = None
        try:
            self.bus = bus = self._made_of.bus(self.cluster, self, life)
            self.posts = Posts(self, life)
            environment = DelivererEnvironment(self._clock, self._monotonic, self._draw, self._wait)
            parts = replace(self._made_of.parts, limits=self._limits, environment=environment)
            context = DelivererContext.of(bus, CONFIG, parts)
            self.deliverer = deliverer = self._made_of.deliverer(context, self.posts)
            while not self._stopping:
                deliverer.run_pass(1.0)
            deliverer.stop()
            while not deliverer.is_idle:
                deliverer.run_pass(1.0)
        except EngineError as e:
            self.say(f"fails: {type(e).__name__}: {e}")
            self.seen[f"deliverer ended by {type(e).__name__}"] += 1
        if bus is not None:
            bus.close()
        self._end()

    def _wait(self, _: float) -> None:
        self.note("deliveries in flight before a rebalance")
        self.wait("waits for its last deliveries")

    def _draw(self) -> float:
        return self.chance.random() if self.by_chance else 0.0


def answered(flight: Flight, answer: Answer, reply: Any = None) -> bool:
    """Hands an answer to the process that waits for it; False if none does."""
    if flight.host is None:
        return False
    flight.host.answers.append(Ended(flight.number, answer, reply))
    flight.host = None
    return True
