"""From the append of an event to its firing being readable, at a steady rate; and the event loop's delay."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from dataclasses import replace

from confluent_kafka import Consumer, Producer, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.runtime import run_engine
from interlock.engine.telling import Account
from interlock.events.kafka import encode

from ..lines import percentile, progress, tell
from .load import PARTITIONS, SOLO, new_bus, others, run_until_open, solos, subscribe

TICK_S = 0.01
ONE_IN = 100
AIM_AT = 2_000  # events/s: the load for which the latency has an aim
WARM_S = 20  # not counted: clients connect, and a broker that has just begun is several times slower
ENGINE = """
import json, signal, sys, threading
from interlock.engine.config import BusConfig
from interlock.engine.runtime import run_engine
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
run_engine(BusConfig(**json.loads(sys.argv[1])), stop)
"""


def run(bootstrap_servers: str, rate: int, seconds: int) -> None:
    """Event stored -> firing readable by a reader of committed records, by the broker's clock and ours."""
    config = new_bus(f"latency-{rate}", bootstrap_servers)
    subscribe(config, [("solo", SOLO, None)], durable=True)
    run_until_open(config)
    form = json.dumps({"name": config.name, "client": dict(config.client)})
    engine = subprocess.Popen([sys.executable, "-c", ENGINE, form])
    try:
        taken = _measure(config, rate, seconds)
    finally:
        engine.terminate()
        engine.wait()
    for share, name, most in ((0.5, "p50", 15), (0.99, "p99", 60)):
        tell(
            f"event stored -> firing readable at {rate} events/s, {name}",
            percentile(taken, share) * 1000,
            "ms",
            most=most if rate == AIM_AT else None,
            events=len(taken),
        )


def _measure(config: BusConfig, rate: int, seconds: int) -> list[float]:
    stored: dict[str, float] = {}
    readable: dict[str, float] = {}
    count = rate * (WARM_S + seconds)
    done = threading.Event()

    def read() -> None:
        reader = Consumer({
            **config.client, "group.id": "bench", "isolation.level": "read_committed",
            "auto.offset.reset": "earliest", "fetch.wait.max.ms": 10,
        })  # fmt: skip
        reader.assign([TopicPartition(config.topic("action"), p, 0) for p in range(PARTITIONS)])
        quiet_since = time.monotonic()
        while len(readable) < count and time.monotonic() - quiet_since < 30:
            for message in reader.consume(10_000, 0.01):
                if message.error() is None:
                    value = message.value()
                    start = value.index(b'"id":"solo') + 6
                    readable[value[start : value.index(b'"', start)].decode()] = time.monotonic()
                    quiet_since = time.monotonic()
        done.set()

    thread = threading.Thread(target=read)
    thread.start()
    producer = Producer({**config.client, "linger.ms": 5, "partitioner": "murmur2_random"})

    def told(name: str) -> None:
        stored[name] = time.monotonic()

    started = time.monotonic()
    for n, event in enumerate(solos(count)):
        key, value, headers = encode(event)
        producer.produce(
            config.topic("event"),
            value,
            key,
            headers=headers,
            on_delivery=lambda error, _, name=event.id: told(name) if error is None else None,
        )
        producer.poll(0)
        while time.monotonic() < started + n / rate:
            producer.poll(0.001)
    producer.flush()
    thread.join()
    if len(readable) != count:
        raise SystemExit(f"bench: {len(readable)} firings of {count}")
    return [readable[name] - at for name, at in stored.items() if at > started + WARM_S]


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
        tell(
            f"delay of the event loop at {rate} events/s, of which 1 in {ONE_IN} matches, {name}",
            percentile(busy, share) * 1000,
            "ms",
            most=most,
            idle=round(percentile(idle, share) * 1000, 3),
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
    encoded = [encode(event) for event in others(1000)]
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
