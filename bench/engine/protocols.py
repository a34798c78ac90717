"""Failover of a consumer group with the classic protocol and with KIP-848, same session timeout (ADR 12)."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from operator import truediv
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from interlock.engine.kafka.bus import HEARTBEAT_MS, SESSION_TIMEOUT_MS

from .. import brokers
from ..lines import report

PARTITIONS = 32
ROUNDS = 3
DEADLINE_S = 120.0
# By default a broker's least session timeout for the newer protocol is 45 s; here both have the same.
BROKER = {
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
}
CLASSIC: dict[str, Any] = {
    "group.protocol": "classic",
    "session.timeout.ms": SESSION_TIMEOUT_MS,
    "heartbeat.interval.ms": HEARTBEAT_MS,
}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic, range": {**CLASSIC, "partition.assignment.strategy": "range"},
    "classic, cooperative-sticky": {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    "consumer (KIP-848)": {"group.protocol": "consumer"},
}


def run(_: str) -> None:
    """Measures the seconds from a SIGKILL of one of two members until the other reads its partitions."""
    with brokers.started(BROKER) as bootstrap_servers:
        took: dict[str, list[float]] = {name: [] for name in PROTOCOLS}
        for n in range(ROUNDS):  # in turns
            for number, (name, settings) in enumerate(PROTOCOLS.items()):
                took[name].append(failover(bootstrap_servers, f"failover-{number}-{n}", settings))
        first = next(iter(took.values()))
        for name, turns in took.items():
            ratio = statistics.median(map(truediv, turns, first))
            report(f"failover, {name}, session 6 s", statistics.median(turns), "s", ratio, turns=turns)


def failover(servers: str, topic: str, settings: dict[str, Any]) -> float:
    """Kills one of two members; returns the seconds until the other reads its partitions. Creates the
    topic."""
    client: dict[str, Any] = {"bootstrap.servers": servers}
    admin = AdminClient(client)  # kept by name: its requests end with it
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(15)
    over = threading.Event()
    load = threading.Thread(target=_load, args=(client, topic, over))
    load.start()
    given = {**client, **settings, "group.id": topic, "enable.auto.commit": False, "fetch.wait.max.ms": 10,
             "auto.offset.reset": "latest", "topic.metadata.refresh.interval.ms": 1000}  # fmt: skip
    survivor = Consumer(given)
    survivor.subscribe([topic])
    victim = None
    try:
        _read_until(survivor, set(range(PARTITIONS)))
        member = [sys.executable, "-m", "bench.engine.member", json.dumps(given), topic]
        victim = subprocess.Popen(member)
        lost = _until_shared(survivor)
        os.kill(victim.pid, signal.SIGKILL)
        started = time.monotonic()
        _read_until(survivor, lost)
        return time.monotonic() - started
    finally:
        if victim is not None:
            victim.kill()
            victim.wait()
        over.set()
        load.join()
        survivor.close()


def _load(client: dict[str, Any], topic: str, over: threading.Event) -> None:
    """Produces a record to each partition every 20 ms."""
    producer = Producer({**client, "linger.ms": 1})
    while not over.wait(0.02):
        for partition in range(PARTITIONS):
            producer.produce(topic, b"x", partition=partition)
        producer.poll(0)
    producer.flush(10)


def _until_shared(survivor: Consumer) -> set[int]:
    """Waits until each member has had half of the partitions for a second; returns the other's."""
    deadline, since = time.monotonic() + DEADLINE_S, None
    while since is None or time.monotonic() - since < 1.0:
        _require(deadline)
        survivor.poll(0.05)
        half = len(survivor.assignment()) == PARTITIONS // 2
        since = (since or time.monotonic()) if half else None
    return set(range(PARTITIONS)) - {tp.partition for tp in survivor.assignment()}


def _read_until(consumer: Consumer, wanted: set[int]) -> None:
    """Reads until a record of each of these partitions has arrived."""
    deadline, left = time.monotonic() + DEADLINE_S, set(wanted)
    while left:
        _require(deadline)
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            left.discard(message.partition())


def _require(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise SystemExit(f"bench: the consumer group did not settle within {DEADLINE_S:.0f} s")
