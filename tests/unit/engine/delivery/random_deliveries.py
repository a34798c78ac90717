"""A random history of one partition: its deliverers, sinks, what users and brokers do, and what must hold.

Beyond `random_log`, which plays one partition, it has the lanes, the acknowledgements and the registry.
Beyond `tests/simulation` it has firings that are sent again after their dead letter, records of another
version, firings without a key, and sinks that are away for more than a day. Nothing runs at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from interlock.engine.bus import Output, TopicPartition
from interlock.engine.delivery.answers import Answer
from interlock.engine.delivery.context import DelivererContext, DelivererEnvironment, DeliveryLimits
from interlock.engine.delivery.deliverer import Deliverer
from interlock.engine.delivery.firings import Order, subscription_of
from interlock.engine.delivery.parts import PARTS, DelivererParts
from interlock.engine.delivery.posts import Delivery, Ended
from interlock.engine.delivery.retry import MOST_GIVE_UP_AFTER_S, Retry
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.delivery.window import FiringWindow
from interlock.engine.errors import EngineError
from interlock.engine.records import encode_json

from tests.kit.bus import Alone
from tests.kit.kafka import Cluster
from tests.unit.engine.delivery.firings import SINK, TP, action
from tests.unit.engine.delivery.setting import CONFIG, Bus

STEPS: Final = 250
DRAIN_ROUNDS: Final = 600
OTHER_SINK: Final = subscription_of("airflow", "t")
REGISTRY, DEAD_LETTER, EVENT = (
    TopicPartition(f"b-{name}", 0) for name in ("subscription", "dead-letter", "event")
)
LATER: Final = 99  # a version that is not read
ORDERS: Final[tuple[Order, ...]] = ("key", "partition", "none")
KEYS: Final = ("a", "a", "b", "c", None)
STATUSES: Final = (200, 200, 200, 200, 500, 429, 400, 401, None)
CHANCES: Final = {
    "run": 40, "fire": 16, "answer": 30, "define": 5, "remove": 1, "refuse": 4, "take over": 2,
    "rebalance": 2,
    "skip": 2, "redrive": 4, "of another version": 2, "readable again": 3, "move the clock": 10, "a day": 1,
    "compact": 2,
}  # fmt: skip


@dataclass(eq=False)
class Fired:
    """A firing, as it was written last. at: the offset of that record; {acked_at}: of its acknowledgement.

    unread_at: the offset of a record of another version, after which it cannot be known whether it is open.
    """

    name: str
    key: str | None
    subscription: str
    at: int = 0
    acked_at: int | None = None
    unread_at: int | None = None
    times: int = 0
    accepted: int = 0
    heard: set[int] = field(default_factory=set)  # numbers of deliverers that know that it was accepted
    is_skipped: bool = False

    @property
    def record_key(self) -> bytes:
        return f"{self.subscription}\0{self.name}".encode()

    @property
    def is_open(self) -> bool:
        return self.acked_at is None

    def lane(self, order: Order) -> object:
        """What two firings that wait for each other have in common."""
        return {
            "key": (self.subscription, self.key),
            "partition": self.subscription,
            "none": self.record_key,
        }[order]


class RandomDeliveries:
    """Plays one history: `play`, then look at `problems` and `seen`."""

    def __init__(
        self, seed: int, parts: DelivererParts = PARTS, made_of: type[Deliverer] = Deliverer
    ) -> None:
        self._rng = rng = Random(seed)
        self.cluster = Cluster()
        self.cluster.create("b-action", 1, compact=True)
        for tp in (REGISTRY, DEAD_LETTER, EVENT):
            self.cluster.create(tp.topic, 1, compact=tp is REGISTRY)
        environment = DelivererEnvironment(
            lambda: 0.0, lambda: self.cluster.now_ms / 1000, rng.random, self._let_time_pass
        )
        window = FiringWindow(
            sink=rng.choice((4, 12)), lane=rng.choice((2, 3)), noted=rng.choice((0, 3, 100))
        )
        limits = DeliveryLimits(slots=rng.choice((1, 3, 50)), window=window)
        self._parts, self._made_of = replace(parts, environment=environment, limits=limits), made_of
        self._fired: dict[bytes, Fired] = {}
        self._sinks: dict[str, SinkRecord] = {}  # as the registry has them
        self._read = 0
        self._deliverers = 0
        self._refused = ""
        self.problems: list[str] = []
        self.seen: Counter[str] = Counter()
        self.bus: Bus | None = None
        for subscription in (SINK, OTHER_SINK):
            self._define(subscription)
        self._take_over()

    def play(self) -> RandomDeliveries:
        actions: dict[str, Callable[[], object]] = {
            "run": self._run, "fire": self._fire_some, "answer": self._answer_one, "remove": self._remove,
            "define": lambda: self._define(self._rng.choice((SINK, OTHER_SINK))), "refuse": self._refuse,
            "take over": self._take_over, "rebalance": self.cluster.rebalance, "skip": self._skip,
            "redrive": self._redrive, "of another version": self._write_later,
            "readable again": self._resolve,
            "move the clock": lambda: self._move(self._rng.choice((200, 1_000, 6_000, 50_000))),
            "a day": lambda: self._move(90_000_000), "compact": self._compact,
        }  # fmt: skip
        names = self._rng.choices([*CHANCES], [*CHANCES.values()], k=STEPS)
        for name in names:
            self.seen[name] += 1
            actions[name]()
            self._follow_log()
        self._drain()
        self._judge()
        return self

    def _problem(self, text: str) -> None:
        self.problems.append(text)

    def _move(self, ms: int) -> None:
        self.cluster.now_ms += ms

    def _let_time_pass(self, seconds: float) -> None:
        self._move(max(1, int(seconds * 500)))

    # -- the deliverer

    def _take_over(self) -> None:
        """Another process takes over; the deliveries of the last one end with it."""
        if self.bus is not None:
            self.bus.close()
        self._deliverers += 1
        self.bus = Bus(self.cluster, Alone(self.cluster), f"d{self._deliverers}")
        self.bus.refused = self._refused
        self._ended: list[Ended] = []
        context = DelivererContext.of(self.bus, CONFIG, self._parts)
        self.deliverer = self._made_of(context, self)

    def _run(self) -> None:
        for _ in range(self._rng.choice((1, 1, 2, 5))):
            self._pass(self._rng.choice((0, 5, 50)))

    def _pass(self, ms: int) -> None:
        self._move(ms)
        try:
            self.deliverer.run_pass()
        except EngineError:
            self.seen["ended by an error"] += 1
            self._take_over()
        assert self.bus is not None
        self.bus.host.pause("")
        self._follow_log()

    def ended(self) -> list[Ended]:
        """As `Posts`."""
        ended, self._ended = self._ended, []
        return ended

    def start(self, delivery: Delivery) -> None:
        """As `Posts`: checks what is sent."""
        self._follow_log()
        sent, order = delivery.firing, delivery.sink.order
        fired, partition = self._fired[sent.key], self.deliverer.ownership.partitions[TP]
        who = f"{fired.subscription} {fired.name}@{sent.record.offset} ({order})"
        if sent.key in self.deliverer.acknowledgements.done:
            self._problem(f"{who} is sent although it is over")
        if self._deliverers in fired.heard:
            self._problem(f"{who} is sent again although it was accepted")
        if fired.acked_at is not None and fired.acked_at < partition.position:
            self._problem(f"{who} is sent although it is acknowledged")
        if sum(each.firing.key == sent.key for each in self.deliverer.deliveries.values()) > 1:
            self._problem(f"{who} is sent while it is in flight")
        if self._sinks.get(fired.subscription) != delivery.sink:
            self.seen["sent with older settings"] += 1  # the registry is read in the next pass
        for other in self._fired.values():
            if other is fired or other.subscription != fired.subscription:
                continue
            unread = other.unread_at
            if unread is not None and unread < partition.position:
                if unread < sent.record.offset:
                    self._problem(f"{who} is sent after a record of another version: {other.name}@{unread}")
            elif other.is_open and other.at < sent.record.offset and other.lane(order) == fired.lane(order):
                self._problem(f"{who} is sent before {other.name}@{other.at}")

    def _answer_one(self) -> None:
        waiting = [*self.deliverer.deliveries.values()]
        answered = {each.number for each in self._ended}
        if left := [each for each in waiting if each.number not in answered]:
            self._answer(self._rng.choice(left), self._rng.choice(STATUSES))

    def _answer(self, delivery: Delivery, status: int | None) -> None:
        answer = Answer(
            status, connected=status is not None, retry_after_s=self._rng.choice((None, None, 20.0))
        )
        reply = None
        fired = self._fired[delivery.firing.key]
        if status == 200:
            fired.accepted += 1
            if delivery.firing.record.offset >= fired.at:
                fired.heard.add(self._deliverers)
            if delivery.sink.replies:
                reply = Output(EVENT.topic, 0, fired.record_key, b"reply")
        self._ended.append(Ended(delivery.number, answer, reply))

    # -- engines, users, brokers

    def _write(self, fired: Fired, state: str, **members: object) -> int:
        written = action(fired.name, fired.key, state=state, subscription=fired.subscription, **members)
        return self.cluster.append(TP, written.key, encode_json(written))[0]

    def _fire(self, subscription: str, key: str | None) -> None:
        fired = Fired(f"f{len(self._fired)}", key, subscription, times=1)
        self._fired[fired.record_key] = fired
        fired.at = self._write(fired, "fired")

    def _fire_some(self) -> None:
        subscription = self._rng.choice((SINK, SINK, OTHER_SINK))
        for _ in range(self._rng.choice((1, 1, 2, 6))):
            self._fire(subscription, self._rng.choice(KEYS))

    def _define(self, subscription: str, **settings: object) -> None:
        rng = self._rng
        retry = Retry(
            most_delay_s=20.0, tries=rng.choice((None, 1, 3)), give_up_after_s=rng.choice((30.0, 86_400.0))
        )
        record = SinkRecord(
            subscription=subscription,
            connection="c",
            **{
                "order": rng.choice(ORDERS),
                "max_in_flight": rng.choice((1, 2, 8)),
                "retry": retry,
                "replies": rng.random() < 0.4,
                **settings,
            },  # type: ignore[arg-type]
        )
        self._sinks[subscription] = record
        self.cluster.append(REGISTRY, record.key, encode_json(record))

    def _remove(self) -> None:
        if record := self._sinks.pop(self._rng.choice((SINK, OTHER_SINK)), None):
            self.cluster.append(REGISTRY, record.key, None)

    def _refuse(self) -> None:
        self._refused = self._rng.choice(("", DEAD_LETTER.topic, EVENT.topic))
        assert self.bus is not None
        self.bus.refused = self._refused

    def _open(self) -> Iterator[Fired]:
        return (each for each in self._fired.values() if each.is_open)

    def _skip(self) -> None:
        """An administrator acknowledges a firing."""
        if found := [each for each in self._open() if each.unread_at is None]:
            fired = self._rng.choice(found)
            fired.is_skipped = True
            self._write(fired, "acked")

    def _redrive(self) -> None:
        """A firing that is over is written again, as `dead-letters redrive` does."""
        if found := [each for each in self._fired.values() if not each.is_open and each.unread_at is None]:
            fired = self._rng.choice(found)
            fired.times, fired.is_skipped, fired.acked_at = fired.times + 1, False, None
            fired.heard.clear()
            fired.at = self._write(fired, "fired")

    def _write_later(self) -> None:
        """Another version writes a firing or an acknowledgement."""
        if found := [each for each in self._open() if each.unread_at is None]:
            fired = self._rng.choice(found)
            fired.unread_at = self._write(fired, self._rng.choice(("fired", "acked")), v=LATER)

    def _resolve(self) -> None:
        """A record that can be read follows one of another version."""
        if found := [each for each in self._open() if each.unread_at is not None]:
            fired = self._rng.choice(found)
            fired.unread_at, fired.is_skipped = None, True
            self._write(fired, "acked")

    def _compact(self) -> None:
        log = self.cluster.topics[TP.topic].logs[0]
        self.cluster.compact(TP.topic, 0, self._rng.randrange(log.end + 1))

    def _follow_log(self) -> None:
        """Note the acknowledgements that are committed, and check the offset."""
        log = self.cluster.topics[TP.topic].logs[0]
        while self._read < log.stable_end:
            offset, self._read = self._read, self._read + 1
            entry = log.entries[offset]
            fired = self._fired.get(entry.key or b"")
            if entry.control or fired is None or b'"state":"acked"' not in (entry.value or b""):
                continue
            if (entry.transaction is None or entry.transaction.decision == "committed") and (
                b'"v":%d' % LATER not in (entry.value or b"") and offset > fired.at
            ):
                if fired.acked_at is not None and not fired.is_skipped:
                    self._problem(f"{fired.name} is acknowledged twice")
                fired.acked_at = offset
                if fired.unread_at is not None and offset > fired.unread_at:
                    fired.unread_at = None
        committed = self.cluster.group.offsets.get(TP)
        # A record of another version may have replaced the firing's own, if the log was compacted.
        lowest = min((each.unread_at or each.at for each in self._open()), default=None)
        if committed is not None and lowest is not None and lowest < committed.offset:
            self._problem(f"{committed.offset} is committed, above the open firing at {lowest}")

    # -- the end

    def _drain(self) -> None:
        """Brokers and sinks accept everything."""
        while any(each.unread_at is not None for each in self._fired.values()):
            self._resolve()
            self._follow_log()
        self._refused = ""
        assert self.bus is not None
        self.bus.refused = ""
        for subscription in (SINK, OTHER_SINK):
            patient = Retry(most_delay_s=20.0, give_up_after_s=MOST_GIVE_UP_AFTER_S)
            self._define(subscription, retry=patient)
        end = self.cluster.topics[TP.topic].logs[0]
        for _ in range(DRAIN_ROUNDS):
            self._pass(700)
            answered = {each.number for each in self._ended}
            for delivery in self.deliverer.deliveries.values():
                if delivery.number not in answered:
                    self._answer(delivery, 200)
            committed = self.cluster.group.offsets.get(TP)
            is_idle = not [*self._open()] and not self.deliverer.deliveries
            if is_idle and committed is not None and (committed.offset == end.end or not self._fired):
                break
        if left := [*self._open()]:
            self._problem(f"held for ever: {left[:3]}")

    def _judge(self) -> None:
        dead = Counter(entry.key for _, entry in self.cluster.topics[DEAD_LETTER.topic].logs[0].history())
        replies = Counter(entry.key for _, entry in self.cluster.topics[EVENT.topic].logs[0].history())
        for key, fired in self._fired.items():
            if not fired.accepted and not dead[key] and not fired.is_skipped and fired.times == 1:
                self._problem(f"lost: {fired}")
            if dead[key] + replies[key] > fired.times:
                self._problem(f"{dead[key]} dead letters and {replies[key]} replies: {fired}")
            self.seen["dead letter"] += dead[key]
            self.seen["reply"] += replies[key]
        self._move(7_200_000)  # beyond each delay
        for _ in range(4):
            self._pass(2_000)
        self.problems += [f"left in memory: {what} {size}" for what, size in self._memory() if size]

    def _memory(self) -> Iterator[tuple[str, int]]:
        deliverer = self.deliverer
        for partition in deliverer.ownership.partitions.values():
            yield "held", len(partition.held)
            yield "open offsets", len(partition.open_offsets)
            yield "left out", len(partition.left_out)
            for name in ("_noted", "_unknown", "_unread", "_dropped"):
                yield name, len(getattr(partition, name))
            yield "window", len(partition._window._counts) + sum(partition._window._bytes.values())
        for lanes in deliverer.schedule.sinks.values():
            lanes.wake(self.cluster.now_ms / 1000)
            lanes._has_ready(self.cluster.now_ms / 1000)
            for name in ("lanes", "over", "_started", "_ready", "_parked"):
                yield name, len(getattr(lanes, name))
            yield "in flight", lanes.in_flight
        yield "done", len(deliverer.acknowledgements.done)
        yield "without sink", len(deliverer._without_sink._firings)
