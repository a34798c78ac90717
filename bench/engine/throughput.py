"""Events a second: a raw client loop, and the engine with its whole work, output checked complete."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus, consumer_settings
from interlock.engine.kafka.clients import ClientErrors, connect
from interlock.engine.kafka.transactions import producer_settings
from interlock.engine.protocol.loop import Engine

from ..lines import progress, tell
from .load import (
    PAIR,
    PARTITIONS,
    SOLO,
    new_bus,
    others,
    pairs,
    produce,
    run_until_open,
    solos,
    subscribe,
    waits,
)

TURNS = 3


def run(bootstrap_servers: str, events: int, subscriptions: int) -> None:
    """Raw loop, nothing matching, the same with many subscriptions, one matcher, keyed pairs."""
    nothing = new_bus("nothing", bootstrap_servers)
    progress(f"producing {events} events on each of five buses")
    produce(nothing, others(events))
    raw_loop(nothing, events, 5_000)  # not counted: a broker that has just begun is slower
    raw = max(raw_loop(nothing, events, batch) for batch in (2_000, 10_000))
    tell("raw client loop", raw, "events/s")
    crowded = new_bus("crowded", bootstrap_servers)
    progress(f"registering {subscriptions} subscriptions")
    subscribe(crowded, waits(subscriptions), durable=False)
    run_until_open(crowded)
    alone: list[float] = []
    beside: list[float] = []
    for turn in range(TURNS):  # in turns, so that neither has the warmer broker
        if turn:
            produce(nothing, others(events))
        alone.append(engine_rate(nothing, events, committed_to_end(nothing)))
        produce(crowded, others(events))
        beside.append(engine_rate(crowded, events, committed_to_end(crowded)))
    rate, crowd = statistics.median(alone), statistics.median(beside)
    tell("engine, nothing matches", rate, "events/s", rate / raw, least_ratio=1.3)
    others_too = f"engine, nothing matches, {subscriptions} other subscriptions"
    tell(others_too, crowd, "events/s", crowd / rate, least_ratio=0.9)
    solo = new_bus("solo", bootstrap_servers)
    subscribe(solo, [("solo", SOLO, None)], durable=True)
    run_until_open(solo)
    produce(solo, solos(events))
    rate = engine_rate(solo, events, (firings := Firings(solo, events)).complete)
    firings.check()
    tell("engine, every event fires a one-matcher subscription", rate, "events/s", rate / raw)
    paired = new_bus("pairs", bootstrap_servers)
    subscribe(paired, [("pairs", PAIR, None)], durable=True)
    run_until_open(paired)
    produce(paired, pairs(events))
    rate = engine_rate(paired, events, (firings := Firings(paired, events // 2)).complete)
    firings.check()
    tell("engine, keyed pairs, every event matches", rate, "events/s", rate / raw, least_ratio=0.5)


def raw_loop(config: BusConfig, count: int, batch: int) -> float:
    """Consume -> produce one record for each event -> offsets, transactional, with the engine's settings."""
    errors = ClientErrors()
    consumer = connect(Consumer, config, errors, group_id=f"raw-{batch}", **consumer_settings())
    producer = connect(Producer, config, errors, transactional_id=f"raw-{batch}", **producer_settings())
    producer.init_transactions()
    topic, target = config.topic("event"), config.topic("dead-letter")

    def begin(joined: Consumer, partitions: list[TopicPartition]) -> None:
        joined.assign([TopicPartition(tp.topic, tp.partition, 0) for tp in partitions])

    consumer.subscribe([topic], on_assign=begin)
    while (first := consumer.poll(1)) is None or first.error():
        pass  # it joins; the first record is not counted
    done, started = 1, time.perf_counter()
    while done < count:
        first = consumer.poll(0.5)
        taken = [] if first is None else [first, *consumer.consume(batch - 1, 0)]
        messages = [message for message in taken if message.error() is None]
        if not messages:
            continue
        offsets: dict[int, int] = {}
        producer.begin_transaction()
        for message in messages:
            dict(message.headers())
            while True:
                try:
                    producer.produce(target, message.value(), None, message.partition())
                    break
                except BufferError:
                    producer.poll(0.01)
            offsets[message.partition()] = message.offset() + 1
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, p, o) for p, o in offsets.items()], consumer.consumer_group_metadata()
        )
        producer.commit_transaction()
        done += len(messages)
    rate = done / (time.perf_counter() - started)
    consumer.close()
    return rate


def engine_rate(config: BusConfig, count: int, finished: Callable[[], bool]) -> float:
    """Events a second from the beginning of the pass that takes the first to the commit of the last."""
    engine = Engine(KafkaBus(config), config)
    started = None
    while not finished():
        began = time.perf_counter()
        if engine.run_pass() and started is None:
            started = began
    if started is None:
        raise SystemExit("bench: the engine had nothing to do")
    rate = count / (time.perf_counter() - started)
    engine.close()
    return rate


def committed_to_end(config: BusConfig) -> Callable[[], bool]:
    """True when the group's committed offsets have reached the ends of the event topic."""
    consumer = Consumer({**config.client, "group.id": config.group})
    topic = config.topic("event")
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, p))[1] for p in range(PARTITIONS)]
    asked = [TopicPartition(topic, p) for p in range(PARTITIONS)]
    return _now_and_then(lambda: [c.offset for c in consumer.committed(asked, timeout=10)] == ends)


class Firings:
    """What is in the action topic, read back by a reader of its own; one that comes twice counts twice."""

    def __init__(self, config: BusConfig, right: int) -> None:
        self._reader = Consumer({
            **config.client, "group.id": "bench", "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        })  # fmt: skip
        self._reader.assign([TopicPartition(config.topic("action"), p, 0) for p in range(PARTITIONS)])
        self._right, self._seen = right, Counter[bytes]()
        self.complete = _now_and_then(self._complete)

    def _complete(self) -> bool:
        self._read(0)
        return self._seen.total() >= self._right

    def check(self) -> None:
        """Once the engine has ended: nothing is missing, nothing more comes, and nothing came twice."""
        while self._read(2.0):
            pass
        self._reader.close()
        if (self._seen.total(), len(self._seen)) != (self._right, self._right):
            raise SystemExit(
                f"bench: {self._seen.total()} firings of {len(self._seen)} ids where {self._right} are right"
            )

    def _read(self, timeout_s: float) -> int:
        messages = [m for m in self._reader.consume(100_000, timeout_s) if m.error() is None]
        self._seen.update(m.key() for m in messages)
        return len(messages)


def _now_and_then(fact: Callable[[], bool]) -> Callable[[], bool]:
    last = 0.0

    def asked() -> bool:
        nonlocal last
        if time.perf_counter() - last < 0.1:
            return False
        found = fact()
        last = time.perf_counter()
        return found

    return asked
