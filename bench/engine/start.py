"""How long an engine takes to begin where most of the registry is over."""

from __future__ import annotations

import time

import psutil
from confluent_kafka import Producer
from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.protocol.loop import Engine
from interlock.engine.records import Registration, RegistrationKey, encode_json

from ..lines import progress, tell
from .load import PAIR, new_bus, run_until_open


def run(bootstrap_servers: str, ended: int) -> None:
    """Seconds until an engine is open on a registry of so many waits that are over, and MiB that it takes."""
    config = new_bus("start", bootstrap_servers)
    run_until_open(config)
    bare, _ = _opened(config)
    progress(f"writing {ended} registrations, and their removals")
    _write_ended(config, ended)
    took, mib = _opened(config)
    tell(f"start on a registry of {ended} waits that are over", took, "s", took / bare)
    tell("each record of that registry", (took - bare) / (2 * ended) * 1e6, "us")
    tell("memory that the start took", mib, "MiB")


def _opened(config: BusConfig) -> tuple[float, float]:
    """Seconds, and MiB of the process while the engine is open."""
    process = psutil.Process()
    before, started = process.memory_info().rss, time.perf_counter()
    engine = Engine(KafkaBus(config), config)
    while not (engine.is_open and engine.up_to_date):
        engine.run_pass()
    took, taken = time.perf_counter() - started, process.memory_info().rss - before
    engine.close()
    return took, taken / 2**20


def _write_ended(config: BusConfig, count: int) -> None:
    producer = Producer({**config.client, "linger.ms": 20, "compression.type": "lz4"})
    topic = config.topic("subscription")
    for n in range(count):
        registration = Registration.of(f"wait-{n}", PAIR, f"w{n}", 0)
        key = RegistrationKey(registration.incarnation, "bench").encode()
        for value in (encode_json(registration), None):
            while True:
                try:
                    producer.produce(topic, value, key, partition=0)
                    break
                except BufferError:
                    producer.poll(0.1)
    producer.flush()
