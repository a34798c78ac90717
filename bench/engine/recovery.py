"""Taking over: a partition's open keys, and an engine that is killed inside a transaction."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from confluent_kafka import Consumer, Producer, TopicPartition
from interlock import Event
from interlock.conditions import EMPTY, Match, step
from interlock.engine.config import BusConfig
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

from ..lines import point, progress, tell
from .load import PAIR, PARTITIONS, SOLO, new_bus, run_until_open, subscribe
from .plain_client import read_whole
from .protocols import CLASSIC, failover

FAILOVER_RATE = 500  # events/s: no pass of the survivor finds nothing to do
DEADLINE_S = 120.0
AIM_AT = 1_000_000  # open keys: as many as the aim for recovery names
# Prints how long it was from the assignment of its partitions until it worked on them, its memory in KiB, and
# how many open keys it found.
RECOVERING = """
import json, sys
import psutil
from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.protocol.loop import Engine
config = BusConfig(**json.loads(sys.argv[1]))
engine = Engine(KafkaBus(config), config)
while not engine.is_open:
    engine.run_pass()
took = engine.stats.recovery_s
kib = psutil.Process().memory_full_info().uss / 1024
print(took, kib, sum(trigger.open_keys for trigger in engine.ownership.triggers.values()))
engine.close()
"""
# Dies in the midst of a transaction once it has fired for a while.
KILLED_INSIDE = """
import json, os, signal, sys, threading
from interlock.engine.config import BusConfig
from interlock.engine.kafka.transactions import Transactions
from interlock.engine.runtime import run_engine
produce, fired = Transactions._produce, 0
def dying(self, output, on_delivery=None):
    global fired
    produce(self, output, on_delivery)
    fired += output.topic.endswith("-action")
    if fired >= 200:
        self._producer.flush(5)
        os.kill(os.getpid(), signal.SIGKILL)
Transactions._produce = dying
run_engine(BusConfig(**json.loads(sys.argv[1])), threading.Event())
"""


def open_keys(bootstrap_servers: str, sizes: Sequence[int]) -> None:
    """Seconds until an engine has read back so many open keys of one durable pair, and what they take.

    Beside it: a plain client that reads the same records.

    Each engine is a process of its own; its memory is compared with one of an engine that has none to read.
    """
    _recovered(bootstrap_servers, 0)  # not counted: a broker that has just begun is slower
    _, bare_kib, _ = _recovered(bootstrap_servers, 0)
    for keys in sizes:
        took, kib, plain = _recovered(bootstrap_servers, keys)
        tell(f"plain client reads the records of {keys} open keys", plain, "s")
        cost = point("recovery of an open key", keys, took / keys * 1e6, "us/key")
        most = 15 if keys == AIM_AT else None
        tell(f"recovery of {keys} open keys", took, "s", took / plain, most=most, **cost)
        cost = point("memory of an open key", keys, (kib - bare_kib) / keys, "KiB/key")
        tell(f"memory of {keys} open keys", (kib - bare_kib) / 1024, "MiB", **cost)


def _recovered(bootstrap_servers: str, keys: int) -> tuple[float, float, float]:
    """Seconds, KiB of the process, and seconds of a plain client that reads the same."""
    config = new_bus(f"recovery-{keys}-{time.monotonic_ns()}", bootstrap_servers)
    subscribe(config, [("pairs", PAIR, None)], durable=True)
    progress(f"writing the states of {keys} open keys")
    _write_states(config, keys)
    form = json.dumps({"name": config.name, "client": dict(config.client)})
    done = subprocess.run(
        [sys.executable, "-c", RECOVERING, form], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"bench: an engine has ended:\n{done.stderr[-2000:]}")
    took, kib, found = done.stdout.split()
    if int(found) != keys:
        raise SystemExit(f"bench: {found} open keys of {keys}")
    return float(took), float(kib), read_whole(config, config.topic("state"), PARTITIONS)


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
    """Seconds from a SIGKILL inside a transaction until all that was sent before it has fired.

    Beside it: a plain consumer group of which one of two members is killed.
    The load goes on all the time: the engine that survives is busy with the partitions that it has.
    """
    progress("a plain consumer group")
    bare = failover(bootstrap_servers, "failover-bare", CLASSIC)
    tell("plain consumer group: SIGKILL of a member -> the other reads what it had", bare, "s")
    config = new_bus("failover", bootstrap_servers)
    subscribe(config, [("solo", SOLO, None)], durable=True)
    run_until_open(config)
    form = json.dumps({"name": config.name, "client": dict(config.client)})
    stop = threading.Event()
    survivor = threading.Thread(target=run_engine, args=(config, stop))
    load = _Load(config, FAILOVER_RATE)
    survivor.start()
    load.start()
    victim = subprocess.Popen([sys.executable, "-c", KILLED_INSIDE, form])
    try:
        killed_at = _killed(victim)
        before = load.sent
        took = load.fired_until(before, killed_at)
        later = load.sent - before
        load.stop()
        load.check()
        tell(
            "SIGKILL inside a transaction, load goes on -> all sent before has fired",
            took,
            "s",
            took / bare,
            most=12,
            rate=FAILOVER_RATE,
            sent_before=before,
            sent_since=later,
        )
        tell("the longest time from sending to firing meanwhile", load.longest(), "s")
    finally:
        if victim.poll() is None:
            os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
        load.end()
        stop.set()
        survivor.join()


def _killed(victim: subprocess.Popen[bytes]) -> float:
    """When it killed itself."""
    deadline = time.monotonic() + DEADLINE_S
    while victim.poll() is None:
        if time.monotonic() > deadline:
            raise SystemExit("bench: the engine that is to be killed gets no partition")
        time.sleep(0.005)
    return time.monotonic()


class _Load:
    """Events at a steady rate, and when the firing of each could be read."""

    def __init__(self, config: BusConfig, rate: int) -> None:
        self._config, self._rate = config, rate
        self.sent = 0
        self._sent_at: list[float] = []
        self._fired_at: dict[int, float] = {}
        self._again: list[int] = []
        self._emitting, self._reading = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=self._emit), threading.Thread(target=self._read)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def fired_until(self, count: int, since: float) -> float:
        """Seconds from then until the first so many have fired."""
        deadline = time.monotonic() + DEADLINE_S
        while any(n not in self._fired_at for n in range(count)):
            if time.monotonic() > deadline:
                raise SystemExit(f"bench: {len(self._fired_at)} firings of {self.sent}")
            time.sleep(0.05)
        return max(self._fired_at[n] for n in range(count)) - since

    def longest(self) -> float:
        return max(at - self._sent_at[n] for n, at in self._fired_at.items())

    def stop(self) -> None:
        """No event any more."""
        self._emitting.set()
        self._threads[0].join()

    def check(self) -> None:
        """All have fired, once."""
        self.fired_until(self.sent, 0.0)
        if self._again:
            raise SystemExit(f"bench: events {self._again[:5]} have fired twice")

    def end(self) -> None:
        self.stop()
        self._reading.set()
        self._threads[1].join()

    def _emit(self) -> None:
        producer = Producer({**self._config.client, "linger.ms": 5, "partitioner": "murmur2_random"})
        started = time.monotonic()
        while not self._emitting.wait(0.005):
            for n in range(self.sent, int((time.monotonic() - started) * self._rate)):
                event = Event.of("solo", "/bench", id=str(n), subject=f"s{n % 1000}")
                key, value, headers = encode(event)
                self._sent_at.append(time.monotonic())
                producer.produce(self._config.topic("event"), value, key, headers=headers)
                self.sent = n + 1
            producer.poll(0)
        producer.flush()

    def _read(self) -> None:
        consumer = Consumer({**self._config.client, "group.id": "bench", "isolation.level": "read_committed",
                             "auto.offset.reset": "earliest"})  # fmt: skip
        topic = self._config.topic("action")
        consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        while not self._reading.is_set():
            for message in consumer.consume(1000, 0.02):
                if message.error() is None:
                    [event] = json.loads(message.value())["firing"]["events"]["solo"]
                    number = int(event["id"])
                    if number in self._fired_at:
                        self._again.append(number)
                    self._fired_at.setdefault(number, time.monotonic())
        consumer.close()
