"""The sinks of a world of deliveries, and what becomes of the deliveries on their way there and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, Protocol, TypeAlias

import msgspec
from interlock.engine.bus import Output
from interlock.engine.delivery.answers import Answer
from interlock.engine.delivery.firings import Order, subscription_of
from interlock.engine.delivery.retry import MOST_GIVE_UP_AFTER_S, Retry
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.records import ActionRecord, decode_json, encode_json

from tests.simulation.actors import CONFIG
from tests.simulation.deliverers import Flight, Network, answered
from tests.simulation.topics import EVENT, REGISTRY

GIVE_UP_MS: Final = 40_000
KEYS: Final = ("a", "b", "c", "d")
Mode: TypeAlias = Literal["up", "down", "failing", "denying"]
MODES: Final[tuple[Mode, ...]] = ("up", "up", "up", "down", "failing", "denying")
STATUSES: Final = (500, 500, 503, 403, 400)  # that a sink answers to a key
OTHER: Final[Mapping[Order, Order]] = {"key": "none", "partition": "key", "none": "key"}
ORDERS: Final[tuple[Order, ...]] = ("key", "key", "key", "partition", "none")


@dataclass(eq=False)
class Sink:
    """A service, and what its subscription's sink record says."""

    subscription: str
    record: SinkRecord
    limits_tries: bool
    replies: bool
    mode: Mode = "up"
    bad_keys: dict[str, int] = field(default_factory=dict)  # {key: status that it answers to it}
    accepted: list[bytes] = field(default_factory=list)

    @property
    def patient(self) -> Retry:
        """Its retry policy, but it gives up nothing that is retried."""
        return msgspec.structs.replace(self.record.retry, tries=None, give_up_after_s=MOST_GIVE_UP_AFTER_S)

    def answer_to(self, flight: Flight) -> Answer:
        if self.mode == "down":
            return Answer(None, "refused", connected=False)
        key = decode_json(ActionRecord, flight.delivery.firing.record.value or b"", "").firing.key or ""
        status = {"up": 200, "failing": 500, "denying": 401}[self.mode]
        return Answer(self.bad_keys.get(key, status))


class WithSinks(Network, Protocol):
    """What sinks need of their world."""

    def acceptance_arrived(self, flight: Flight) -> None:
        """Checks what a process has heard: that its delivery was accepted."""


class Sinks:
    """The sinks of one world, most of them defined from the beginning.

    actions: {name: what happens by chance}; the numbers choose to what, and how.
    """

    def __init__(self, rng: Random, world: WithSinks) -> None:
        """rng: chooses the sinks."""
        self._world, self._seen, self._say = world, world.seen, world.say
        self.all = [_new_sink(n, rng) for n in range(rng.choice((1, 2, 2, 3)))]
        for sink in self.all:
            if rng.random() < 0.8:
                self._define(sink)
        self.actions: Mapping[str, Callable[[int, int], object]] = {
            "sink": self._change,
            "mode": self._change_mode,
            "key": self._change_key,
            "arrive": self._arrive_one,
            "answer": self._answer_one,
            "no reply": self._lose_answer,
        }

    def of(self, subscription: str) -> Sink:
        return next(sink for sink in self.all if sink.subscription == subscription)

    def chosen(self, n: int) -> Sink:
        return self.all[n % len(self.all)]

    def is_defined(self, subscription: str) -> bool:
        """Whether the registry has a sink record of the subscription now."""
        value = None
        for _, entry in self._world.cluster.topics[REGISTRY.topic].logs[0].history():
            if entry.key == b"sink/" + subscription.encode():
                value = entry.value
        return value is not None

    def mend(self) -> None:
        """All are defined, patient and up, but one key of each stays bad if that delays only itself."""
        for sink in self.all:
            sink.mode = "up"
            bad = [*sink.bad_keys][:1] if sink.record.order == "key" else []
            sink.bad_keys = dict.fromkeys(bad, 500)
            self._define(sink, sink.patient)

    def accept_all(self) -> None:
        """After `mend`: no key is bad any more."""
        for sink in self.all:
            sink.bad_keys = {}
            self._define(sink)

    def refuse_a_key(self) -> None:
        """After `mend`: the sink gives a key up at once."""
        for number, sink in enumerate(self.all):
            key = next(iter(sink.bad_keys), KEYS[number % len(KEYS)])
            sink.bad_keys = {key: 400}

    def change_orders(self) -> None:
        """Each gets another order, in which no key waits for others."""
        for sink in self.all:
            order = OTHER[sink.record.order]
            sink.record = msgspec.structs.replace(sink.record, order=order)
            self._define(sink, sink.patient)

    # -- what users and services do

    def _define(self, sink: Sink, retry: Retry | None = None) -> None:
        record = msgspec.structs.replace(sink.record, retry=retry or sink.record.retry)
        self._world.cluster.append(REGISTRY, record.key, encode_json(record))

    def _change(self, n: int, what: int) -> None:
        """A sink is defined, redefined with another order, or removed."""
        sink = self.chosen(n)
        if what % 5 == 0:
            self._world.cluster.append(REGISTRY, sink.record.key, None)
            self._say(f"the sink of {sink.subscription} is removed")
            self._seen["sink removed"] += 1
            return
        order = ORDERS[what // 5 % len(ORDERS)]
        self._seen["order changed"] += order != sink.record.order
        sink.record = msgspec.structs.replace(sink.record, order=order)
        self._define(sink)
        self._say(f"the sink of {sink.subscription} has order {order}")

    def _change_mode(self, n: int, what: int) -> None:
        sink = self.chosen(n)
        sink.mode = MODES[what % len(MODES)]
        self._seen[f"sink {sink.mode}"] += 1
        self._say(f"{sink.subscription} is {sink.mode}")

    def _change_key(self, n: int, what: int) -> None:
        """A sink refuses one key, or accepts it again."""
        sink = self.chosen(n)
        key = KEYS[what % len(KEYS)]
        if sink.bad_keys.pop(key, None) is None:
            sink.bad_keys[key] = STATUSES[what // 4 % len(STATUSES)]
        self._say(f"{sink.subscription} answers {sink.bad_keys}")

    # -- what becomes of deliveries

    def carry_all(self) -> None:
        """All deliveries arrive, and all answers."""
        for flight in [*self._world.flights]:
            self._arrive(flight)
            self._answer(flight, lost=False)

    def _arrive(self, flight: Flight) -> None:
        """A delivery reaches its sink."""
        if flight.arrived:
            return
        flight.arrived = True
        sink = self.of(flight.delivery.firing.subscription)
        answer = sink.answer_to(flight)
        flight.answer = answer
        self._say(f"{flight.key.decode()} of {flight.life} arrives: {answer}")
        if answer.status == 200:
            sink.accepted.append(flight.key)

    def _arrive_one(self, n: int, _: int) -> None:
        waiting = [flight for flight in self._world.flights if not flight.arrived]
        if waiting:
            self._arrive(waiting[n % len(waiting)])

    def _answer_one(self, n: int, _: int) -> None:
        waiting = [flight for flight in self._world.flights if flight.arrived]
        if waiting:
            self._answer(waiting[n % len(waiting)], lost=False)

    def _lose_answer(self, n: int, _: int) -> None:
        """A delivery times out; it may still reach its sink later."""
        flights = self._world.flights
        if flights:
            self._answer(flights[n % len(flights)], lost=True)

    def _answer(self, flight: Flight, *, lost: bool) -> None:
        sink = self.of(flight.delivery.firing.subscription)
        answer, reply = flight.answer, None
        if lost or answer is None:
            answer = Answer(None, "timeout")
            self._seen["answer lost after the sink accepted"] += flight.arrived
        elif answer.status == 200 and sink.replies:
            reply = Output(EVENT, 0, flight.key, b"reply")
        if flight.arrived or flight.host is None:
            self._world.flights.remove(flight)
        if answered(flight, answer, reply):
            self._say(f"{flight.key.decode()} is answered to {flight.life}: {answer}")
            if answer.status == 200:
                self._world.acceptance_arrived(flight)


def _new_sink(n: int, rng: Random) -> Sink:
    retry = Retry(
        delay_s=0.2,
        most_delay_s=30.0,
        backoff=rng.choice(("exponential", "linear")),
        tries=rng.choice((None, None, 2, 4)),
        give_up_after_s=GIVE_UP_MS / 1000,
    )
    record = SinkRecord(
        subscription=subscription_of(CONFIG.deployment, f"s{n}"),
        connection="c",
        order=rng.choice(ORDERS),
        max_in_flight=rng.choice((1, 2, 8)),
        retry=retry,
    )
    return Sink(record.subscription, record, retry.tries is not None, replies=rng.random() < 0.4)
