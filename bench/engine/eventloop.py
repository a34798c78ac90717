"""I12: the delay of the event loop in a process whose engine processes events, some of which match."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from dataclasses import replace

from confluent_kafka import Producer
from interlock.engine.config import BusConfig
from interlock.engine.protocol.stats import Stats
from interlock.engine.runtime.reporting import EngineStatus
from interlock.engine.runtime.runtime import EngineProcess, run_engine
from interlock.events.kafka import encode

from ..lines import Aim, percentile, report
from .load import SOLO, new_bus, put, run_until_open, solos, subscribe, unmatched

TICK_S = 0.01
ONE_IN = 100


def run(bootstrap_servers: str, rate: int = 20_000, seconds: int = 10) -> None:
    """Measures the delay. The load is produced in the same process; the baseline has the load alone."""
    alone = _delays_beside(new_bus("eventloop-alone", bootstrap_servers), rate, seconds)[0]
    config = new_bus("eventloop", bootstrap_servers)
    subscribe(config, [("solo", SOLO, None)], durable=True)
    run_until_open(config)
    stop, status = threading.Event(), EngineStatus()
    engine = threading.Thread(
        target=run_engine, args=(config, stop), kwargs={"process": EngineProcess(status=status)}
    )
    engine.start()
    try:
        busy, before, after = _delays_beside(config, rate, seconds, status)
    finally:
        stop.set()
        engine.join()
    matches = after.stepped - before.stepped  # which count as consumed too
    consumed = (after.consumed - before.consumed - matches) / seconds
    fired = (after.fired - before.fired) / seconds
    if consumed < 0.95 * rate or fired < 0.9 * rate / ONE_IN:
        raise SystemExit(
            f"bench: the engine processed {consumed:.0f} of {rate} events/s, and fired {fired:.0f} times/s"
        )
    for share, name, aim in ((0.5, "p50", None), (0.99, "p99", Aim("figure at most", 50))):
        bare, figure = percentile(alone, share) * 1000, percentile(busy, share) * 1000
        report(f"delay of an event loop beside a producer of {rate} events/s, {name}", bare, "ms")
        report(
            f"delay of the event loop with an engine that processes them, 1 in {ONE_IN} matches, {name}",
            figure,
            "ms",
            figure / bare,
            aim=aim,
            consumed_per_s=round(consumed),
            fired_per_s=round(fired),
        )


def _delays_beside(
    config: BusConfig, rate: int, seconds: int, status: EngineStatus | None = None
) -> tuple[list[float], Stats, Stats]:
    """(delays of an event loop beside a load, the engine's counters before, and after)."""
    ended, status = threading.Event(), status or EngineStatus()
    load = threading.Thread(target=produce_steadily, args=(config, rate, ended))
    load.start()
    try:
        asyncio.run(_delays(3))  # the producer connects, and the engine joins its group
        before = replace(status.stats)
        delays = asyncio.run(_delays(seconds))
        return delays, before, replace(status.stats)
    finally:
        ended.set()
        load.join()


async def _delays(seconds: int) -> list[float]:
    delays = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        before = time.monotonic()
        await asyncio.sleep(TICK_S)
        delays.append(time.monotonic() - before - TICK_S)
    return delays


def produce_steadily(config: BusConfig, rate: int, ended: threading.Event) -> None:
    """Produces every 20 ms; most events are encoded before, so that this thread hardly delays the loop."""
    encoded = [encode(event) for event in unmatched(1000)]
    matching = solos(sys.maxsize)  # each has its own id: repeated events would not match
    producer = Producer({**config.client, "linger.ms": 5, "compression.type": "lz4"})
    started, sent = time.monotonic(), 0
    while not ended.wait(0.02):
        due = int((time.monotonic() - started) * rate)
        for n in range(sent, due):
            key, value, headers = encode(next(matching)) if n % ONE_IN == 0 else encoded[n % 1000]
            put(producer, config.topic("event"), value, key, headers=headers)
        sent = due
        producer.poll(0)
    producer.flush(10)
