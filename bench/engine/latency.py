"""From the append of an event, of which each fires, to its firing being readable, at a steady rate.

And the delay of an event loop beside a busy engine.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from confluent_kafka import Consumer, Producer, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.kafka.reader import consume
from interlock.engine.runtime import run_engine
from interlock.engine.telling import Account
from interlock.events.kafka import encode

from ..lines import percentile, point, progress, tell
from .load import PARTITIONS, SOLO, new_bus, one, run_until_open, solos, subscribe, unmatched

TICK_S = 0.01
ONE_IN = 100
DEADLINE_S = 60.0
LEAST_OF_RATE = 0.97  # a load that falls behind would make everything look quicker
AIM_AT = 2_000  # events/s: the load for which the latency has an aim
WARM_S = 5.0  # not counted: clients connect
FIRST_WARM_S = 20.0  # a broker that has just begun is several times slower
ENGINE = """
import json, signal, sys, threading
from interlock.engine.config import BusConfig
from interlock.engine.runtime import run_engine
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
run_engine(BusConfig(**json.loads(sys.argv[1])), stop)
"""


def run(bootstrap_servers: str, rates: Sequence[int], seconds: int) -> None:
    """Event stored -> firing readable by a reader of committed records, by the clock of this machine.

    Each event fires. The baseline is a client loop of two hops with the engine's settings (two_hops.py),
    measured before the engine at the same rate.
    """
    warm_s = FIRST_WARM_S
    for rate in rates:
        floor = _taken(bootstrap_servers, rate, warm_s, seconds, raw=True)
        warm_s = WARM_S
        taken = _taken(bootstrap_servers, rate, warm_s, seconds, raw=False)
        for share, name, most in ((0.5, "p50", 15), (0.99, "p99", 60)):
            least = percentile(floor, share) * 1000
            figure = percentile(taken, share) * 1000
            about = f"event stored -> firing readable at {rate} events/s, {name}"
            tell(f"client loop of two hops: {about}", least, "ms", events=len(floor))
            cost = point(f"event stored -> firing readable, {name}", rate, figure, "ms")
            aim = most if rate == AIM_AT else None
            tell(about, figure, "ms", figure / least, most=aim, events=len(taken), **cost)


def _taken(bootstrap_servers: str, rate: int, warm_s: float, seconds: int, *, raw: bool) -> list[float]:
    config = new_bus(f"latency-{'raw' if raw else 'engine'}-{rate}", bootstrap_servers)
    subscribe(config, [("solo", SOLO, None)], durable=True)
    run_until_open(config)
    form = json.dumps({"name": config.name, "client": dict(config.client)})
    what = ["-m", "bench.engine.two_hops"] if raw else ["-c", ENGINE]
    process = subprocess.Popen([sys.executable, *what, form], stdout=subprocess.DEVNULL)
    try:
        return _measure(config, rate, warm_s, seconds)
    finally:
        process.terminate()
        process.wait()


def _measure(config: BusConfig, rate: int, warm_s: float, seconds: int) -> list[float]:
    stored: dict[str, float] = {}
    readable: dict[str, float] = {}
    count = int(rate * (warm_s + seconds))
    begun, over = threading.Event(), threading.Event()

    def read() -> None:
        reader = Consumer({
            **config.client, "group.id": "bench", "isolation.level": "read_committed",
            "auto.offset.reset": "earliest", "fetch.wait.max.ms": 10,
        })  # fmt: skip
        reader.assign([TopicPartition(config.topic("action"), p, 0) for p in range(PARTITIONS)])
        while not over.is_set():
            for message in consume(reader, 10_000, 0.01):
                if message.error() is None:
                    value = message.value()
                    start = value.index(b'"id":"solo') + 6
                    readable[value[start : value.index(b'"', start)].decode()] = time.monotonic()
                    begun.set()

    thread = threading.Thread(target=read)
    thread.start()
    producer = Producer({**config.client, "linger.ms": 5, "partitioner": "murmur2_random"})

    def told(name: str) -> None:
        stored[name] = time.monotonic()

    def send(name: str, record: tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]) -> None:
        key, value, headers = record
        producer.produce(
            config.topic("event"),
            value,
            key,
            headers=headers,
            on_delivery=lambda error, _: told(name) if error is None else None,
        )

    try:
        load = [(each.id, encode(each)) for each in solos(count)]
        send("solo-first", encode(one("solo", "-first", "first")))
        producer.flush()
        if not begun.wait(DEADLINE_S):
            raise SystemExit("bench: the first event does not fire")
        started = time.monotonic()
        for n, (name, record) in enumerate(load):
            send(name, record)
            producer.poll(0)
            while time.monotonic() < started + n / rate:
                producer.poll(0.001)
        took = time.monotonic() - started
        producer.flush()
        deadline = time.monotonic() + DEADLINE_S
        while len(readable) <= count and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        over.set()
        thread.join()
    if len(readable) != count + 1:
        raise SystemExit(f"bench: {len(readable) - 1} firings of {count}")
    if count / took < LEAST_OF_RATE * rate:
        raise SystemExit(f"bench: {count / took:.0f} events/s were sent of {rate}")
    return [readable[name] - at for name, at in stored.items() if at > started + warm_s]


def event_loop_delay(bootstrap_servers: str, rate: int, seconds: int) -> None:
    """I12: how late the event loop of a process is in which the engine takes events, of which some match."""
    config = new_bus("eventloop", bootstrap_servers)
    subscribe(config, [("solo", SOLO, None)], durable=True)
    run_until_open(config)
    idle = asyncio.run(_delays(3))
    stop, ended, account = threading.Event(), threading.Event(), Account()
    engine = threading.Thread(target=run_engine, args=(config, stop), kwargs={"account": account})
    load = threading.Thread(target=produce_steadily, args=(config, rate, ended))
    engine.start()
    load.start()
    try:
        asyncio.run(_delays(3))  # the engine joins its group
        before = replace(account.stats)
        busy = asyncio.run(_delays(seconds))
        after = replace(account.stats)
    finally:
        ended.set()
        load.join()
        stop.set()
        engine.join()
    matches = after.stepped - before.stepped  # are consumed as well
    consumed = (after.consumed - before.consumed - matches) / seconds
    fired = (after.fired - before.fired) / seconds
    if consumed < 0.95 * rate or fired < 0.9 * rate / ONE_IN:
        raise SystemExit(
            f"bench: the engine took {consumed:.0f} of {rate} events/s, and fired {fired:.0f} times"
        )
    progress("the load is produced in the same process, and is part of the delay")
    for share, name, most in ((0.5, "p50", None), (0.99, "p99", 50)):
        least, figure = percentile(idle, share) * 1000, percentile(busy, share) * 1000
        tell(f"delay of an event loop beside nothing, {name}", least, "ms")
        tell(
            f"delay of the event loop at {rate} events/s, of which 1 in {ONE_IN} matches, {name}",
            figure,
            "ms",
            figure / least,
            most=most,
            consumed_per_s=round(consumed),
            fired_per_s=round(fired),
        )


async def _delays(seconds: int) -> list[float]:
    delays = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        before = time.monotonic()
        await asyncio.sleep(TICK_S)
        delays.append(time.monotonic() - before - TICK_S)
    return delays


def produce_steadily(config: BusConfig, rate: int, ended: threading.Event) -> None:
    """In slices of 20 ms; most events are encoded before, so that this thread costs the loop little."""
    encoded = [encode(event) for event in unmatched(1000)]
    matching = solos(sys.maxsize)  # each has an id of its own: repeats would match nothing
    producer = Producer({**config.client, "linger.ms": 5, "compression.type": "lz4"})
    started, sent = time.monotonic(), 0
    while not ended.wait(0.02):
        due = int((time.monotonic() - started) * rate)
        for n in range(sent, due):
            key, value, headers = encode(next(matching)) if n % ONE_IN == 0 else encoded[n % 1000]
            producer.produce(config.topic("event"), value, key, headers=headers)
        sent = due
        producer.poll(0)
    producer.flush(10)
