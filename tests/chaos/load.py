"""The load: events at a steady rate, waits and durable subscriptions of all kinds, and acknowledgements.

All random choices come from one seed. What was actually written is read from the log, not from this module.
"""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
import zlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from interlock.conditions import Condition, Matcher, absent, at_least, canonical_key, count, event, sequence
from interlock.engine.config import BusConfig
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.records import Registration, RegistrationKey, encode_json
from interlock.events.event import Event
from interlock.events.kafka import encode

from .clients import lost_brokers
from .deliveries import is_delivered

TYPES = tuple(f"chaos.{letter}" for letter in "abcdef")
# How long a key gets events if 24 are in use at once; in proportion for other numbers.
KEY_LIFE_S = 12.0
# In each minute half of the source partitions get no events for this long.
IDLE_EVERY_S, IDLE_FOR_S = 60.0, 40.0
ASK_S = 10.0  # interval at which clients that have lost the brokers are looked for
BY: dict[str, Any] = {
    "subject": "subject",
    "member": "data.day",  # a day in two spellings
    "composite": ["subject", "data.region"],
}
Made = Callable[[list[Matcher]], Condition]
TIMELESS: dict[str, Made] = {
    "matcher": lambda m: m[0],
    "all": lambda m: m[0] & m[1],
    "all of three": lambda m: m[0] & m[1] & m[2],
    "any": lambda m: m[0] | (m[1] & m[2]),
    "at_least": lambda m: at_least(2, m[0], m[1], m[2]),
    "count": lambda m: count(m[0], 3),
    "within": lambda m: (m[0] & m[1]).within("2s"),
    "burst": lambda m: count(m[0], 2).within("1s"),
    "resets": lambda m: (m[0] & m[1]).resets("* * * * *"),
    "keep first": lambda m: (m[0] & m[1]).keep("first"),
    "keep all": lambda m: (m[0] & m[1]).keep("all"),
    "sequence as it comes": lambda m: sequence(m[0], m[1], ordered=False),
}
TIMED: dict[str, Made] = {
    "sequence": lambda m: sequence(m[0], m[1]),
    "ordered": lambda m: (m[0] & m[1]).ordered(),
    "not": lambda m: (m[0] & ~m[1]).within("1s"),
    "absent": lambda m: absent(m[0], "2s"),
    "absent and": lambda m: absent(m[0], "2s") & m[1],
    "quiet": lambda m: (m[0] & m[1]).quiet("1s"),
    "expires": lambda m: (m[0] & m[1]).expires(after="2s"),
    "expires by event": lambda m: (m[0] & m[1] & m[2]).expires(after="1s", armed_by="event"),
}
# Only for a wait for a known key.
ARMED: dict[str, Made] = {"absent from the start": lambda m: absent(m[0], "3s", armed_by="subscription")}
POISON: tuple[tuple[bytes | None, list[tuple[str, bytes | None]]], ...] = (
    (b"\x00\xff\xfe", []),
    (None, []),
    (b"{}", [("ce_specversion", b"1.0"), ("ce_id", b"\xff\xfe"), ("ce_source", b"/c"), ("ce_type", b"t")]),
    (b"{}", [("ce_specversion", b"1.0"), ("ce_type", b"chaos.a")]),
    (b"[" * 5000, [("content-type", b"application/cloudevents+json")]),
    (None, [("content-type", b"application/cloudevents+json")]),
    (b"[]", [("content-type", b"application/cloudevents-batch+json")]),
)


@dataclass
class Plan:
    """The parameters of a run's load; see `draw`."""

    rate: float  # events a second
    durables: int
    keys: int  # in use at once
    waits_per_s: float
    timed: bool  # whether there are conditions that need ticks
    durable: bool
    listed: bool  # a topic of plain records that the bus lists
    duplicates: float = 0.05
    poison: float = 0.005
    aborted: float = 0.01


@dataclass
class Counts:
    """The load's own counters."""

    emitted: int = 0
    by_kind: Counter[str] = field(default_factory=Counter)  # duplicate, poison, out of order, aborted
    registered: Counter[str] = field(default_factory=Counter)  # kind of wait, since, kind of condition
    acked: int = 0


def orders_topic(config: BusConfig) -> str:
    """A topic of plain records, which the bus lists."""
    return f"{config.name}-chaos-orders"


class Load:
    """One thread that emits and registers, one that acknowledges; `stop` ends the first, `close` both."""

    def __init__(self, servers: str, config: BusConfig, plan: Plan, seed: int, partitions: int) -> None:
        self._config, self._plan, self._servers = config, plan, servers
        self._idle = Idle(random.Random(f"idle {seed}"), partitions)
        self._random = random.Random(f"load {seed}")
        self.counts = Counts()
        self.failed: list[BaseException] = []
        self._producer = self._make_producer()
        self._transactional: Producer | None = None
        self._recent: deque[tuple[bytes | None, bytes | None, Any]] = deque(maxlen=4000)
        self._keys: deque[tuple[int, float]] = deque()
        self._next_key = 0
        self._next_wait = 0
        self._registered: dict[str, list[bytes]] = {}  # incarnation -> keys of its records
        self._durables: dict[str, Registration] = {}
        self._open: deque[Registration] = deque(maxlen=300)
        self._lock = threading.Lock()
        self._over, self._closed = threading.Event(), threading.Event()
        self._started = time.time()
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True)
            for name, work in (("load", self._emit_all), ("acknowledge", self._acknowledge_all))
        ]

    def start(self) -> None:
        self._started = time.time()
        for _ in range(self._plan.durables if self._plan.durable else 0):
            self._new_durable()
        for thread in self._threads:
            thread.start()

    def deliver(self, sinks: Sequence[SinkRecord]) -> None:
        """Registers a subscription with keys for each sink. It stays as it is, and deliverers acknowledge."""
        for n, sink in enumerate(sinks):
            first, second = (event(each, by="subject") for each in TYPES[n : n + 2])
            condition = first if n % 2 == 0 else first & second
            now = int(time.time() * 1000)
            self._register(Registration.of(sink.subscription, condition, None, now, kind="durable"))
            self._write("subscription", 0, sink.key, encode_json(sink))

    def leave_idle(self) -> None:
        """Sends no more events to half of the source partitions."""
        self._idle.for_good = True

    def stop(self) -> None:
        """Stops events and registrations; waits for deliveries."""
        self._over.set()
        self._threads[0].join(120)
        self._flush()

    def close(self) -> None:
        """Stops acknowledging."""
        self._closed.set()
        self._threads[1].join(60)
        self._flush()

    def _flush(self) -> None:
        if self._producer.flush(60):
            raise RuntimeError("the broker did not take all of the load within 60 s")

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as e:
            self.failed.append(e)
            raise

    def _make_producer(self, **more: Any) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "partitioner": "murmur2_random",
                "delivery.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 2000,
                **more,
            }
        )

    # -- events

    def _emit_all(self) -> None:
        plan, due_waits, due_changes = self._plan, 0.0, 15.0
        while not self._over.is_set():
            elapsed = time.time() - self._started
            self._idle.look(elapsed)
            while self.counts.emitted < elapsed * plan.rate and not self._over.is_set():
                self._emit_one()
            if elapsed >= due_waits:
                self._new_wait()
                due_waits += 1 / plan.waits_per_s
            if elapsed >= due_changes and plan.durable:
                self._change_durable()
                due_changes += 10.0
            self._producer.poll(0)
            self._over.wait(0.01)

    def _emit_one(self) -> None:
        r, plan = self._random, self._plan
        self.counts.emitted += 1
        what = r.random()
        if what < plan.poison:
            value, headers = r.choice(POISON)
            self._produce(b"poison", value, headers)
            self.counts.by_kind["poison"] += 1
        elif what < plan.poison + plan.duplicates and self._recent:
            back = int(r.expovariate(1 / 60)) if r.random() < 0.8 else r.randrange(len(self._recent))
            self._produce(*self._recent[-1 - min(back, len(self._recent) - 1)])
            self.counts.by_kind["duplicate"] += 1
        elif what < plan.poison + plan.duplicates + plan.aborted:
            self._transaction()
        elif plan.listed and what > 0.95:
            key = self._some_key()
            value = json.dumps({"day": self._day(key), "n": r.randrange(100)}).encode()
            self._produce(f"k{key}".encode(), value, [], orders_topic(self._config))
        else:
            record = self._new_event()
            self._recent.append(record)
            self._produce(*record)

    def _new_event(self) -> tuple[bytes | None, bytes | None, Any]:
        r = self._random
        key = self._some_key()
        data: dict[str, Any] = {"day": self._day(key), "region": f"r{key % 3}", "n": r.randrange(100)}
        if r.random() < 0.0005:
            data["large"] = "x" * 80_000
        more: dict[str, Any] = {}
        if r.random() < 0.6:
            at = datetime.now(UTC) - timedelta(seconds=r.uniform(-0.2, 3.0))
            more["time"] = at
            self.counts.by_kind["out of order"] += 1
        if r.random() < 0.5:  # otherwise by subject, so all events of a key are in one partition
            more["partitionkey"] = f"p{r.randrange(64)}"
        made = Event.of(r.choice(TYPES), "/chaos", id=uuid.UUID(int=r.getrandbits(128)).hex,
                        subject=f"k{key}", data=data, **more)  # fmt: skip
        return encode(made)

    def _some_key(self) -> int:
        now = time.time()
        while self._keys and self._keys[0][1] < now:
            self._keys.popleft()
        while len(self._keys) < self._plan.keys:
            late = KEY_LIFE_S * self._plan.keys / 24 * (0.5 + self._random.random())
            self._keys.append((self._next_key, now + late))
            self._next_key += 1
        return self._random.choice(self._keys)[0]

    def _day(self, key: int) -> str | int:
        day = date(2000, 1, 1) + timedelta(days=key)
        form = self._random.randrange(3)
        return day.isoformat() if form == 0 else day.strftime("%Y%m%d") if form == 1 else int(f"{day:%Y%m%d}")

    def _transaction(self) -> None:
        """Events in a transaction, committed or aborted: control records, offsets with gaps."""
        try:
            if self._transactional is None:
                self._transactional = self._make_producer(
                    **{
                        "transactional.id": f"chaos-load-{uuid.uuid4().hex[:8]}",
                        "transaction.timeout.ms": 5000,
                        "delivery.timeout.ms": 4000,
                    }
                )
                self._transactional.init_transactions(5)
            self._transactional.begin_transaction()
            for _ in range(3):
                key, value, headers = self._new_event()
                place = self._idle.partition_of(key)
                self._transactional.produce(self._config.topic("event"), value, key, place, headers=headers)
            if self._random.random() < 0.5:
                self._transactional.commit_transaction(5)
            else:
                self._transactional.flush(4)
                self._transactional.abort_transaction(5)
                self.counts.by_kind["aborted by its producer"] += 1
        except KafkaException:
            self._transactional = None  # during a fault: the log has the result

    def _produce(
        self, key: bytes | None, value: bytes | None, headers: Any, topic: str | None = None
    ) -> None:
        place = self._idle.partition_of(key) if topic is None else -1
        self._send(topic or self._config.topic("event"), place, key, value, headers)

    # -- registrations

    def _condition(self, armed: bool, unkeyed: bool = False) -> tuple[str, Condition]:
        r = self._random
        names = list(TIMELESS) + (list(TIMED) + (list(ARMED) if armed else []) if self._plan.timed else [])
        name = r.choice(names)
        by = None if unkeyed else r.choice(list(BY.values()))
        types = r.sample(TYPES, 3)
        where = "data.n % 2 == 0" if r.random() < 0.2 else None
        matchers = [event(types[0], by=by, where=where), *(event(each, by=by) for each in types[1:])]
        if self._plan.listed and by == "subject" and r.random() < 0.2:
            matchers[1] = event("org.apache.kafka.record", by=by)
        return name, {**TIMELESS, **TIMED, **ARMED}[name](matchers)

    def _since_ms(self) -> tuple[str, int]:
        """`since` for a live subscription, one that looks back a little, or one that looks back over all."""
        now = int(time.time() * 1000)
        what = self._random.random()
        if what < 0.6:
            return "live", now
        if what < 0.97:
            return "look-back", now - self._random.randrange(1000, 20_000)
        return "look-back over all", int(self._started * 1000) - 60_000

    def _new_wait(self) -> None:
        r = self._random
        self._next_wait += 1
        keyless = r.random() < 0.03
        name, condition = self._condition(armed=not keyless)
        key: Any = None
        if not keyless:
            number = self._some_key()
            by = condition.matchers[0].by
            day = self._day(number)
            key = (
                f"k{number}"
                if by == "subject"
                else day
                if by == "data.day"
                else (f"k{number}", f"r{number % 3}")
            )

        when, since_ms = self._since_ms()
        made = Registration.of(
            f"wait-{self._next_wait}", condition, None if key is None else canonical_key(key), since_ms
        )
        self._register(made)
        self._open.append(made)
        self.counts.registered[f"one-shot, {when}, {name}"] += 1
        what = r.random()
        if what < 0.05:  # like a retried task
            self._register(made)
        elif what < 0.12 and len(self._open) > 20:
            self._remove(self._open[r.randrange(len(self._open))].incarnation)
        elif what < 0.14 and len(self._open) > 20:  # removed and registered again
            again = self._open[r.randrange(len(self._open))]
            self._remove(again.incarnation)
            self._register(again)

    def _new_durable(self, name: str | None = None) -> None:
        kind, condition = self._condition(armed=False, unkeyed=self._random.random() < 0.1)
        while condition.needs_ticks and not condition.keyed:
            # One key with thousands of matches has more legal ticks than the oracle can search.
            kind, condition = self._condition(armed=False, unkeyed=False)
        when, since_ms = self._since_ms()
        name = name or f"durable-{len(self._durables)}-{uuid.UUID(int=self._random.getrandbits(128)).hex[:6]}"
        made = Registration.of(name, condition, None, since_ms, kind="durable")
        self._durables[name] = made
        self._register(made)
        self.counts.registered[f"durable, {when}, {kind}"] += 1

    def _change_durable(self) -> None:
        name = self._random.choice(list(self._durables))
        if self._random.random() < 0.3:
            self._remove(self._durables.pop(name).incarnation)
            self._new_durable()
            return
        before = self._durables[name]
        self._new_durable(name)  # replaces it, before any null value
        self._remove(before.incarnation)

    def _register(self, registration: Registration) -> None:
        key = RegistrationKey(registration.incarnation, uuid.uuid4().hex[:12]).encode()
        with self._lock:
            self._registered.setdefault(registration.incarnation, []).append(key)
        self._write("subscription", 0, key, encode_json(registration))

    def _remove(self, incarnation: str) -> None:
        with self._lock:
            keys = self._registered.pop(incarnation, [])
        for key in keys:
            self._write("subscription", 0, key, None)

    def _write(self, kind: str, partition: int, key: bytes, value: bytes | None) -> None:
        self._send(self._config.topic(kind), partition, key, value, [])

    def _send(self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Any) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, partition, headers=headers)
                return
            except BufferError:
                self._producer.poll(0.1)

    # -- acknowledge firings, and remove the registrations of one-shot waits

    def _waiter(self, places: list[TopicPartition]) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": f"{self._config.name}-chaos-waiter",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 500,
            }
        )
        consumer.assign(places)
        return consumer

    def _acknowledge_all(self) -> None:
        topic = self._config.topic("action")
        partitions = self._producer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer = self._waiter([TopicPartition(topic, p, 0) for p in partitions])
        asked = time.monotonic()
        while not self._closed.is_set():
            if time.monotonic() - asked > ASK_S:
                consumer = self._with_brokers(consumer)
                asked = time.monotonic()
            for message in consumer.consume(500, 0.2):
                if message.error() is None and message.value():
                    with suppress(KeyError):
                        self._acknowledge(message)
            self._producer.poll(0)
        consumer.close()

    def _with_brokers(self, consumer: Consumer) -> Consumer:
        """The consumer, or its successor. Also replaces the producer if it has lost the brokers.

        What a lost producer still held is not written; the oracle takes what was written from the log.
        """
        if lost_brokers(self._producer, self._servers):
            self._producer = self._make_producer()
        if not lost_brokers(consumer, self._servers):
            return consumer
        places = consumer.position(consumer.assignment())
        return self._waiter([TopicPartition(at.topic, at.partition, max(at.offset, 0)) for at in places])

    def _acknowledge(self, message: Any) -> None:
        form = json.loads(message.value())
        # The order depends on engines, so a seed would not make it repeatable.
        if form["state"] != "fired" or random.random() > 0.9 or is_delivered(form["subscription"]):
            return
        form["state"] = "acked"
        self._write("action", message.partition(), message.key(), json.dumps(form).encode())
        self.counts.acked += 1
        if form.get("kind", "one-shot") == "one-shot":
            self._remove(form["incarnation"])


class Idle:
    """Chooses the source partitions that get no events now; any event may be on any partition."""

    def __init__(self, rng: random.Random, partitions: int) -> None:
        self._random, self._partitions = rng, partitions
        self._busy: list[int] = []  # empty: the producer's partitioner decides
        self.for_good = False

    def look(self, elapsed_s: float) -> None:
        idle = self.for_good or elapsed_s % IDLE_EVERY_S > IDLE_EVERY_S - IDLE_FOR_S
        if not idle:
            self._busy = []
        elif not self._busy:
            self._busy = self._random.sample(range(self._partitions), self._partitions // 2)

    def partition_of(self, key: bytes | None) -> int:
        return self._busy[zlib.crc32(key or b"") % len(self._busy)] if self._busy else -1
