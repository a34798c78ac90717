"""Recovery of a partition's open keys when an engine takes it over."""

from __future__ import annotations

import os
import statistics
import time

from confluent_kafka import Producer
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

from ..lines import Aim, point, progress, report
from ..sizes import number
from .load import PAIR, PARTITIONS, new_bus, put, subscribe
from .opening import opened
from .plain_client import read_whole

AIM_AT = 1_000_000  # open keys: the number for which there is an aim
TURNS = 3
MOST_KEYS_REPEATED = 100_000  # more are measured once: writing them takes longer than reading


def run(bootstrap_servers: str) -> None:
    """Measures how long an engine takes to recover open keys of one durable pair, and their memory.

    The baseline is a plain client that reads the same records. Each engine is a new process; its memory is
    compared with that of an engine without open keys.
    """
    sizes = [number("KEYS", 1)] if os.environ.get("KEYS") else [1_000, 10_000, 100_000, 1_000_000]
    _recovered(bootstrap_servers, 0)  # not counted: a freshly started broker is slower
    _, bare_kib, _ = _recovered(bootstrap_servers, 0)
    for keys in sizes:
        turns = [
            _recovered(bootstrap_servers, keys) for _ in range(1 if keys > MOST_KEYS_REPEATED else TURNS)
        ]
        all_took, plain = [took for took, _, _ in turns], [of_client for _, _, of_client in turns]
        took, kib = statistics.median(all_took), statistics.median(kib for _, kib, _ in turns)
        floor = statistics.median(plain)
        cost = point("plain client reads its record", keys, floor / keys * 1e6, "us/key")
        report(f"plain client reads the records of {keys} open keys", floor, "s", turns=plain, **cost)
        cost = point("recovery of an open key", keys, took / keys * 1e6, "us/key")
        aim = Aim("figure at most", 15) if keys == AIM_AT else None
        ratio = statistics.median(a / b for a, b in zip(all_took, plain, strict=True))
        report(f"recovery of {keys} open keys", took, "s", ratio, aim=aim, turns=all_took, **cost)
        cost = point("memory of an open key", keys, (kib - bare_kib) / keys, "KiB/key")
        report(f"memory of {keys} open keys", (kib - bare_kib) / 1024, "MiB", **cost)


def _recovered(bootstrap_servers: str, keys: int) -> tuple[float, float, float]:
    """(seconds, KiB of the process, seconds of a plain client that reads the same records)."""
    config = new_bus(f"recovery-{keys}-{time.monotonic_ns()}", bootstrap_servers)
    subscribe(config, [("pairs", PAIR, None)], durable=True)
    progress(f"writing the states of {keys} open keys")
    _write_states(config, keys)
    engine = opened(config)
    if engine.open_keys != keys:
        raise SystemExit(f"bench: recovered {engine.open_keys} instead of {keys} open keys")
    return engine.recovery_s, engine.kib, read_whole(config, config.topic("state"), PARTITIONS)


def _write_states(config: BusConfig, keys: int) -> None:
    """Writes the states that an engine has after the first event of each pair."""
    registration = Registration.of("pairs", PAIR, None, 0, kind="durable")
    event = Event.of("pair.first", "/bench", id="1", subject="k", data={"n": 1, "x": "y" * 100})
    state = step(PAIR, EMPTY, Match(event, (0,), config.topic("event"), 0, 1, 1_800_000_000_000))[0].encode()
    producer = Producer({**config.client, "linger.ms": 20, "compression.type": "lz4"})
    topic = config.topic("state")
    # Registry offset 1: the registration follows the bus record.
    meta = encode_msgpack(MetaRecord(1, 1, {}, closed=False, opened=False, only=None))
    for p in range(PARTITIONS):
        producer.produce(topic, meta, state_key(registration.incarnation, None), partition=p)
    value = encode_msgpack(StateRecord(1, 1, 1_900_000_000_000, state))
    for n in range(keys):
        place = partition_of("durable", "pairs", f"k{n}", PARTITIONS)
        put(producer, topic, value, state_key(registration.incarnation, f"k{n}"), partition=place)
    producer.flush()
