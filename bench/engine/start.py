"""How long an engine takes to begin where most of the registry is over."""

from __future__ import annotations

import time

import psutil
from confluent_kafka import Producer
from interlock.engine.config import BusConfig
from interlock.engine.records import Registration, RegistrationKey, encode_json

from ..lines import progress, tell
from .load import PAIR, new_bus, run_until_open


def run(bootstrap_servers: str, ended: int) -> None:
    """Seconds until an engine is open on a registry of so many waits that are over, and MiB that it takes."""
    config = new_bus("start", bootstrap_servers)
    run_until_open(config)
    bare = _seconds_to_open(config)
    progress(f"writing {ended} registrations, and their removals")
    _write_ended(config, ended)
    process = psutil.Process()
    before = process.memory_info().rss
    took = _seconds_to_open(config)
    tell(f"start on a registry of {ended} waits that are over", took, "s", took / bare)
    tell("each record of that registry", (took - bare) / (2 * ended) * 1e6, "us")
    tell("memory that the start took", (process.memory_info().rss - before) / 2**20, "MiB")


def _seconds_to_open(config: BusConfig) -> float:
    started = time.perf_counter()
    run_until_open(config)
    return time.perf_counter() - started


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
