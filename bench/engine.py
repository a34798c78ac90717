"""How fast the engine is beside a raw client loop, on a real broker: `make bench-engine`.

The raw loop consumes the same events, produces one record for each and commits both in one transaction, in
the better of two batch sizes: what the client library can do at all. The engine does its whole work. Each
line printed is one JSON object: question, figure, unit, and ratio to the raw loop of the same run.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from interlock import Event, event
from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.kafka.topics import check, create
from interlock.engine.protocol.loop import Engine
from interlock.engine.records import Registration, RegistrationKey, encode_json, topics_read_by_engine
from interlock.events.kafka import encode
from interlock.plugin.broker import LocalBroker

PARTITIONS = 8
EVENTS = int(os.environ.get("EVENTS", "100000"))
WAITS = EVENTS // 10
PAIR = event("pair.first", by="subject") & event("pair.second", by="subject")


def tell(question: str, figure: float, unit: str, ratio: float | None = None) -> None:
    line: dict[str, Any] = {"question": question, "figure": round(figure, 3), "unit": unit}
    if ratio is not None:
        line["ratio"] = round(ratio, 3)
    print(json.dumps(line), flush=True)


def produce(config: BusConfig, events: Iterator[Event]) -> None:
    producer = Producer(
        {**config.client, "linger.ms": 20, "compression.type": "lz4", "partitioner": "murmur2_random"}
    )
    for one in events:
        key, value, headers = encode(one)
        while True:
            try:
                producer.produce(config.topic("event"), value, key, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def others(count: int) -> Iterator[Event]:
    """Events that nobody waits for, of about 300 bytes with their headers."""
    for n in range(count):
        yield Event.of(
            "com.example.other", "/bench", id=str(n), subject=f"s{n % 1000}", data={"n": n, "x": "y" * 100}
        )


def pairs(waits: int) -> Iterator[Event]:
    for half in ("pair.first", "pair.second"):
        for n in range(waits):
            yield Event.of(half, "/bench", id=f"{half}{n}", subject=f"k{n}", data={"n": n, "x": "y" * 100})


def raw_loop(config: BusConfig, count: int, batch: int) -> float:
    """Events a second of consume -> produce one record -> offsets, transactional."""
    consumer = Consumer({**config.client, "group.id": f"raw-{batch}", "enable.auto.commit": False,
                         "isolation.level": "read_committed"})  # fmt: skip
    producer = Producer({**config.client, "transactional.id": f"raw-{batch}", "compression.type": "lz4",
                         "retry.backoff.ms": 1, "retry.backoff.max.ms": 10, "linger.ms": 0})  # fmt: skip
    producer.init_transactions()
    topic = config.topic("event")
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    consumer.poll(10)  # connected; the first record is not counted
    done, started = 1, time.perf_counter()
    while done < count:
        messages = consumer.consume(batch, 0.5)
        offsets: dict[int, int] = {}
        producer.begin_transaction()
        for message in messages:
            dict(message.headers())
            producer.produce(config.topic("dead-letter"), message.value(), partition=message.partition())
            offsets[message.partition()] = message.offset() + 1
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, p, o) for p, o in offsets.items()], consumer.consumer_group_metadata()
        )
        producer.commit_transaction()
        done += len(messages)
    rate = done / (time.perf_counter() - started)
    consumer.close()
    return rate


def engine_rate(config: BusConfig, count: int, finished: Callable[[Engine], bool]) -> float:
    """Events a second from the first record taken to the commit of the last."""
    bus = KafkaBus(config, topics_read_by_engine(config))
    engine = Engine(bus, config, check(config)[config.topic("trigger")])
    started = None
    while not finished(engine):
        if engine.run_pass() and started is None:
            started = time.perf_counter()
    if started is None:
        raise SystemExit("bench: the engine had nothing to do")
    rate = count / (time.perf_counter() - started)
    engine.close()
    return rate


def all_committed(config: BusConfig) -> Callable[[Engine], bool]:
    """True when the group's committed offsets have reached the ends of the event topic."""
    consumer = Consumer({**config.client, "group.id": config.group})
    topic = config.topic("event")
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, p))[1] for p in range(PARTITIONS)]
    last = time.perf_counter()

    def finished(_: Engine) -> bool:
        nonlocal last
        if time.perf_counter() - last < 0.05:
            return False
        last = time.perf_counter()
        asked = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        return [c.offset for c in consumer.committed(asked, timeout=10)] == ends

    return finished


def fired(config: BusConfig, count: int) -> Callable[[Engine], bool]:
    """True when this many firings are in the action topic, counted by a reader of its own."""
    reader = Consumer({**config.client, "group.id": "bench", "auto.offset.reset": "earliest",
                       "isolation.level": "read_committed"})  # fmt: skip
    reader.assign([TopicPartition(config.topic("action"), p, 0) for p in range(PARTITIONS)])
    seen: set[bytes] = set()

    def finished(_: Engine) -> bool:
        seen.update(m.key() for m in reader.consume(10000, 0) if m.error() is None)
        return len(seen) >= count

    return finished


def register(config: BusConfig, count: int) -> None:
    """`count` one-shot waits for a pair, each with a key of its own."""
    producer = Producer({**config.client, "linger.ms": 20})
    for n in range(count):
        registration = Registration.of(f"w{n}", PAIR, f"k{n}", 0)
        key = RegistrationKey(registration.incarnation, "bench")
        producer.produce(config.topic("subscription"), encode_json(registration), key.encode(), partition=0)
        producer.poll(0)
    producer.flush()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        broker = LocalBroker(Path(folder), report=lambda text: print(text, file=sys.stderr))
        with broker:
            made = []
            for name in ("nothing", "busy", "pairs"):
                config = BusConfig(name=name, client={"bootstrap.servers": broker.bootstrap_servers})
                create(config, partitions=PARTITIONS)
                made.append(config)
            nothing, busy, paired = made
            print(f"producing {EVENTS} events twice, {2 * WAITS} halves", file=sys.stderr)
            produce(nothing, others(EVENTS))
            produce(busy, others(EVENTS))
            raw = max(raw_loop(nothing, EVENTS, batch) for batch in (2000, 10000))
            tell("raw client loop", raw, "events/s")
            rate = engine_rate(nothing, EVENTS, all_committed(nothing))
            tell("engine, nothing matches, no waits", rate, "events/s", rate / raw)
            register(busy, WAITS)
            rate = engine_rate(busy, EVENTS, all_committed(busy))
            tell(f"engine, nothing matches, {WAITS} waits", rate, "events/s", rate / raw)
            register(paired, WAITS)
            produce(paired, pairs(WAITS))
            rate = engine_rate(paired, 2 * WAITS, fired(paired, WAITS))
            tell(f"engine, {WAITS} keyed pairs, every event matches", rate, "events/s", rate / raw)


if __name__ == "__main__":
    main()
