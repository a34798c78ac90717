"""Taking over: a partition's open keys, and an engine that is killed inside a transaction."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from interlock import Event
from interlock.conditions import EMPTY, Match, step
from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.protocol.loop import Engine
from interlock.engine.records import (
    MetaRecord,
    Registration,
    StateRecord,
    encode_msgpack,
    partition_of,
    state_key,
)
from interlock.engine.runtime import run_engine
from interlock.events.kafka import encode

from .lines import progress, tell
from .load import PAIR, PARTITIONS, SOLO, new_bus, run_until_open, subscribe

KILLED_INSIDE = """
import json, os, signal, sys, threading
from interlock.engine.config import BusConfig
from interlock.engine.kafka.transactions import Transactions
from interlock.engine.runtime import run_engine
produce = Transactions._produce
def dying(self, output, on_delivery=None):
    produce(self, output, on_delivery)
    if output.topic.endswith("-action"):
        self._producer.flush(5)
        os.kill(os.getpid(), signal.SIGKILL)
Transactions._produce = dying
run_engine(BusConfig(**json.loads(sys.argv[1])), threading.Event())
"""


def open_keys(bootstrap_servers: str, keys: int) -> None:
    """Seconds until an engine has read back so many open keys of one durable pair, and MiB that they take."""
    config = new_bus("recovery", bootstrap_servers)
    subscribe(config, [("pairs", PAIR, None)], durable=True)
    progress(f"writing the states of {keys} open keys")
    _write_states(config, keys)
    process = psutil.Process()
    before = process.memory_info().rss
    engine = Engine(KafkaBus(config), config)
    while not engine.ownership.opening:
        engine.run_pass()
    started = time.perf_counter()
    while not engine.is_open:
        engine.run_pass()
    took = time.perf_counter() - started
    found = sum(trigger.open_keys for trigger in engine.ownership.triggers.values())
    if found != keys:
        raise SystemExit(f"bench: {found} open keys of {keys}")
    tell(f"recovery of {keys} open keys", took, "s")
    tell(f"memory of {keys} open keys", (process.memory_info().rss - before) / 2**20, "MiB")
    engine.close()


def _write_states(config: BusConfig, keys: int) -> None:
    """What an engine would have written after the first half of each pair."""
    registration = Registration.of("pairs", PAIR, None, 0, kind="durable")
    event = Event.of("pair.first", "/bench", id="1", subject="k", data={"n": 1, "x": "y" * 100})
    state = step(PAIR, EMPTY, Match(event, (0,), config.topic("event"), 0, 1, 1_800_000_000_000))[0].encode()
    producer = Producer({**config.client, "linger.ms": 20, "compression.type": "lz4"})
    topic = config.topic("state")
    meta = encode_msgpack(MetaRecord(2, 1, {}, closed=False))  # the registration follows the bus record
    for p in range(PARTITIONS):
        producer.produce(topic, meta, state_key(registration.incarnation, None), partition=p)
    value = encode_msgpack(StateRecord(2, 1, 1_900_000_000_000, state))
    for n in range(keys):
        place = partition_of("durable", "pairs", f"k{n}", PARTITIONS)
        while True:
            try:
                producer.produce(topic, value, state_key(registration.incarnation, f"k{n}"), partition=place)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def killed_inside_a_transaction(bootstrap_servers: str) -> None:
    """Seconds from a SIGKILL inside a transaction to the next firing, by the engine that survives."""
    config = new_bus("failover", bootstrap_servers)
    subscribe(config, [("solo", SOLO, None)], durable=True)
    run_until_open(config)
    form = json.dumps({"name": config.name, "client": dict(config.client)})
    victim = subprocess.Popen([sys.executable, "-c", KILLED_INSIDE, form])
    stop = threading.Event()
    survivor = threading.Thread(target=run_engine, args=(config, stop))
    try:
        consumer = Consumer({**config.client, "group.id": "bench", "isolation.level": "read_committed",
                             "auto.offset.reset": "earliest"})  # fmt: skip
        consumer.assign([TopicPartition(config.topic("action"), p, 0) for p in range(PARTITIONS)])
        survivor.start()
        producer = Producer({**config.client, "partitioner": "murmur2_random"})
        killed_at, fired, sent = None, 0, 0
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and (killed_at is None or not _took_over(fired, sent)):
            if killed_at is None:
                key, value, headers = encode(Event.of("solo", "/bench", id=str(sent), subject=str(sent)))
                producer.produce(config.topic("event"), value, key, headers=headers)
                sent += 1
                if victim.poll() is not None:
                    killed_at = time.monotonic()
            producer.poll(0)
            fired += sum(m.error() is None for m in consumer.consume(1000, 0.02))
        if killed_at is None or fired != sent:
            raise SystemExit(f"bench: {fired} firings of {sent}")
        tell("SIGKILL inside a transaction -> all fired by the survivor", time.monotonic() - killed_at, "s")
    finally:
        if victim.poll() is None:
            os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
        stop.set()
        survivor.join()


def _took_over(fired: int, sent: int) -> bool:
    return fired >= sent
