"""How long an engine takes to start when most registrations have ended."""

from __future__ import annotations

from confluent_kafka import Producer
from interlock.engine.config import BusConfig
from interlock.engine.records import Registration, RegistrationKey, encode_json

from ..lines import progress, report
from ..sizes import number
from .load import PAIR, new_bus, put, run_until_open
from .opening import opened


def run(bootstrap_servers: str) -> None:
    """Measures the time until an engine is open with a registry of ended waits; the baseline: an empty
    one."""
    ended = number("ENDED", 1_000_000)
    config, empty = (new_bus(name, bootstrap_servers) for name in ("start", "start-empty"))
    for bus in (config, empty):
        run_until_open(bus)
    progress(f"writing {ended} registrations, and their removals")
    _write_ended(config, ended)
    # The broker has taken records by now: a freshly started one is slower.
    bare, found = opened(empty), opened(config)
    report("start on an empty registry", bare.took_s, "s")
    about = f"start on a registry of {ended} waits that are over"
    report(about, found.took_s, "s", found.took_s / bare.took_s)
    report("each record of that registry", (found.took_s - bare.took_s) / (2 * ended) * 1e6, "us")
    report("memory that reading that registry left", (found.kib - bare.kib) / 1024, "MiB")


def _write_ended(config: BusConfig, count: int) -> None:
    producer = Producer({**config.client, "linger.ms": 20, "compression.type": "lz4"})
    topic = config.topic("subscription")
    for n in range(count):
        registration = Registration.of(f"wait-{n}", PAIR, f"w{n}", 0)
        key = RegistrationKey(registration.incarnation, "bench").encode()
        for value in (encode_json(registration), None):
            put(producer, topic, value, key, partition=0)
    producer.flush()
