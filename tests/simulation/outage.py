"""An hour in which a sink is away, in the time of a clock that the world moves.

Two processes run `run_deliverer`, each with the decisions of its deliverer, over simulated brokers. The
network is only its answers to requests. No second of the hour is waited for.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Final, NamedTuple

from interlock.engine.bus import TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.delivery.answers import Answer
from interlock.engine.delivery.context import DelivererContext, DelivererEnvironment
from interlock.engine.delivery.deliverer import Deliverer
from interlock.engine.delivery.firings import subscription_of
from interlock.engine.delivery.posts import Ended
from interlock.engine.delivery.posts import Posts as AnyPosts
from interlock.engine.delivery.retry import Retry
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.errors import EngineError
from interlock.engine.records import ActionRecord, FiringRecord, decode_json, encode_json, partition_of
from interlock.engine.runtime.delivering import DelivererProcess, run_deliverer

from tests.kit.bus import SimulatedBus
from tests.simulation.actors import CONFIG, MONOTONIC_S
from tests.simulation.brokers import Brokers
from tests.simulation.deliverers import USUAL, DeliveryMadeOf, DeliveryProcess, Flight, Posts, answered
from tests.simulation.topics import ACTION, DEAD_LETTER, REGISTRY

SUBSCRIPTION: Final = subscription_of(CONFIG.deployment, "s")
PARTITIONS: Final = 3
KEYS: Final = ("a", "b", "c", "d", "e")
MINUTE_MS: Final = 60_000
TICK_MS: Final = 10_000
TURN_MIN: Final = 10  # how long the sink is away in one way, before the next one
AWAY_MIN: Final = 60
FIRE_EVERY_MIN: Final = 3
SETTLE_MIN: Final = 30  # after the hour: more than the longest delay between two tries
TIMEOUT_S: Final = 30.0
REFUSED: Final = Answer(None, "connection refused", connected=False)
SILENT: Final = Answer(None, "no answer in 30 s")
OVERLOADED: Final = Answer(503, retry_after_s=120.0)
TURNS: Final = (REFUSED, SILENT, OVERLOADED)


class DeadLetter(NamedTuple):
    """A dead letter: why, and how old its firing was."""

    reason: str
    age_s: float


@dataclass
class Outcome:
    """What became of a firing. fired, acknowledged: the offsets of both records, on one partition.

    accepted: by the sink, so often.
    """

    key: str
    fired: int
    accepted: int = 0
    dead_letter: DeadLetter | None = None
    acknowledged: int | None = None


class HostedPosts(Posts):
    """Tells its host in each pass that something has ended, so that no pass waits for it."""

    on_ended: Callable[[], None] = staticmethod(lambda: None)

    def ended(self) -> list[Ended]:
        self.on_ended()
        return super().ended()


class HostedProcess(DeliveryProcess):
    """A process as a command or a triggerer has it: `run_deliverer`, again after an error."""

    def _main_once(self) -> None:
        self._lives += 1
        life = f"{self.name}.{self._lives}"
        process = self

        class Asked(threading.Event):
            def is_set(self) -> bool:
                return process._stopping

        class Made(DelivererProcess):
            def make_bus(self, config: BusConfig) -> SimulatedBus:
                process.bus = made = process._made_of.bus(process.cluster, process, life)
                return made

            def make_deliverer(self, context: DelivererContext, posts: AnyPosts) -> Deliverer:
                environment = DelivererEnvironment(
                    process._clock, process._monotonic, process._draw, process._wait
                )
                parts = replace(process._made_of.parts, environment=environment, limits=process._limits)
                own = DelivererContext.of(context.bus, context.config, parts)
                process.deliverer = process._made_of.deliverer(own, posts)
                return process.deliverer

        @contextmanager
        def make_posts(_: BusConfig, on_ended: Callable[[], None]) -> Iterator[Posts]:
            process.posts = posts = HostedPosts(process, life)
            posts.on_ended = on_ended
            yield posts

        try:
            run_deliverer(CONFIG, Asked(), make_posts, process=Made())
        except EngineError as e:
            self.say(f"fails: {type(e).__name__}: {e}")
            self.seen["failure"] += 1
        self._end()


class Outage:
    """The world: `play` it, then look at its `outcomes`. give_up_after_s: of the sink's retry policy.

    The sink accepts, is away for an hour, and accepts again. Each key fires in every third minute. A second
    process joins, each is killed or stopped and begins again, and for two minutes there is none.

    seen: what has happened, and how often. requests: {key: the offsets of its firings, as they were sent}.
    """

    def __init__(self, give_up_after_s: float, made_of: DeliveryMadeOf = DeliveryMadeOf()) -> None:  # noqa: B008
        self.cluster = cluster = made_of.cluster()
        self.chance, self.seen = Random(0), Counter[str]()
        self.flights: list[Flight] = []
        self.refused = frozenset[str]()
        self.trace: list[str] = []
        self.requests: dict[str, list[int]] = {key: [] for key in KEYS}
        self.accepted: Counter[bytes] = Counter()
        self._answers: list[tuple[int, Flight, Answer]] = []
        cluster.create(ACTION, PARTITIONS, compact=True)
        cluster.create(REGISTRY.topic, 1, compact=True)
        cluster.create(DEAD_LETTER, 1)
        retry = Retry(give_up_after_s=give_up_after_s, timeout_s=TIMEOUT_S)
        sink = SinkRecord(subscription=SUBSCRIPTION, connection="c", retry=retry)
        cluster.append(REGISTRY, sink.key, encode_json(sink))
        self.processes = [HostedProcess(n, self, 0.0, USUAL, made_of) for n in range(2)]
        self._brokers = Brokers(self, self.processes)
        self._began_ms = cluster.now_ms + 2 * MINUTE_MS  # of the hour
        first, second = self.processes
        self._events: dict[int, list[Callable[[], None]]] = {
            15: [self._note_in_flight, second.boot],  # a rebalance, while deliveries have no answer
            25: [first.crash],
            26: [first.boot],
            35: [second.stop],
            36: [second.boot],
            45: [first.crash, second.stop],  # all deliverers are gone
            47: [first.boot, second.boot],
        }

    @property
    def minute(self) -> float:
        """The minute of the hour; negative before it."""
        return (self.cluster.now_ms - self._began_ms) / MINUTE_MS

    def monotonic(self) -> float:
        return MONOTONIC_S + self.minute * 60

    def say(self, what: str) -> None:
        self.trace.append(f"{self.minute:6.2f} {what}")

    def play(self) -> None:
        """Runs until nothing is open any more, or until SETTLE_MIN after the hour."""
        self.processes[0].boot()
        fired_at = self.minute
        while self.minute < AWAY_MIN + SETTLE_MIN:
            while self.minute >= fired_at and fired_at <= AWAY_MIN + FIRE_EVERY_MIN:
                self._fire()
                fired_at += FIRE_EVERY_MIN
            for minute in [minute for minute in self._events if minute <= self.minute]:
                for happens in self._events.pop(minute):
                    happens()
            self._pass()
            if self.minute > AWAY_MIN + FIRE_EVERY_MIN and all(
                outcome.acknowledged is not None for outcome in self.outcomes.values()
            ):
                break
            self.cluster.now_ms += TICK_MS
        for process in self.processes:
            if process.state != "down":
                process.crash()

    def _pass(self) -> None:
        self._brokers.end_the_dead()
        for process in self.processes:
            process.by_chance = False
            if process.state == "up":
                process.run(200)
            self._brokers.mark_all()
        due = [each for each in self._answers if each[0] <= self.cluster.now_ms]
        self._answers = [each for each in self._answers if each not in due]
        for _, flight, answer in due:
            self.flights.remove(flight)
            reaches_its_process = answered(flight, answer)
            self.seen[str(answer) if reaches_its_process else "in flight when its process was killed"] += 1
            lost = "" if reaches_its_process else ", which was killed"
            self.say(f"{flight.key!r} is answered to {flight.life}{lost}: {answer}")

    def _note_in_flight(self) -> None:
        in_flight = [flight for flight in self.flights if flight.host is not None]
        self.seen["in flight when a process joined"] += len(in_flight)

    def _fire(self) -> None:
        for key in KEYS:
            name = f"{key}{self.minute:+06.1f}"
            firing = FiringRecord(id=name, outcome="met", key=key, fired_at="", events={}, origins={})
            action = ActionRecord(
                subscription=SUBSCRIPTION, kind="durable", incarnation="i", state="fired", firing=firing
            )
            partition = partition_of(action.kind, SUBSCRIPTION, key, PARTITIONS)
            self.cluster.append(TopicPartition(ACTION, partition), action.key, encode_json(action))

    def sent(self, flight: Flight) -> None:
        """A request leaves: here it is decided how it ends."""
        record = flight.delivery.firing.record
        firing = decode_json(ActionRecord, record.value or b"", "").firing
        self.requests[firing.key or ""].append(record.offset)
        answer = Answer(200)
        if 0 <= self.minute < AWAY_MIN:
            answer = TURNS[int(self.minute / TURN_MIN) % len(TURNS)]
        self.accepted[flight.key] += answer.status == 200
        after_ms = round(TIMEOUT_S * 1000) if answer is SILENT else 0
        self._answers.append((self.cluster.now_ms + after_ms, flight, answer))
        self.say(f"{flight.life} sends {flight.key!r}")

    @property
    def outcomes(self) -> Mapping[str, Outcome]:
        """{id of a firing: what became of it}."""
        found: dict[str, Outcome] = {}
        times: dict[bytes, int] = {}
        for log in self.cluster.topics[ACTION].logs:
            for offset, entry in log.history():
                action = decode_json(ActionRecord, entry.value or b"", "")
                firing = action.firing
                if action.state == "fired":
                    times[action.key] = entry.timestamp_ms
                    accepted = self.accepted[action.key]
                    found[firing.id] = Outcome(firing.key or "", offset, accepted)
                elif found[firing.id].acknowledged is None:
                    found[firing.id].acknowledged = offset
        for _, entry in self.cluster.topics[DEAD_LETTER].logs[0].history():
            reason = (dict(entry.headers or ())["interlock_reason"] or b"").decode()
            key = entry.key or b""
            age_s = (entry.timestamp_ms - times[key]) / 1000
            found[key.partition(b"\0")[2].decode()].dead_letter = DeadLetter(reason, age_s)
        return found


def problems(world: Outage) -> list[str]:
    """What a sink's user must never see, whatever the policy."""
    wrong: list[str] = []
    outcomes = world.outcomes
    for name, outcome in outcomes.items():
        if outcome.acknowledged is None:
            wrong.append(f"{name} is still open")
        if outcome.accepted + (outcome.dead_letter is not None) != 1:
            wrong.append(f"{name} was accepted {outcome.accepted} times, dead letter: {outcome.dead_letter}")
        if outcome.dead_letter is not None and not outcome.dead_letter.reason:
            wrong.append(f"{name} is a dead letter without a reason")
    for key in KEYS:
        of_key = sorted((o for o in outcomes.values() if o.key == key), key=lambda o: o.fired)
        ended = [o.acknowledged for o in of_key if o.acknowledged is not None]
        if ended != sorted(ended):
            wrong.append(f"the firings of {key} end in the order {ended}")
        if world.requests[key] != sorted(world.requests[key]):
            wrong.append(f"the requests of {key} go back: {world.requests[key]}")
    return wrong
