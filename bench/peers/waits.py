"""The latency from an event to its wait, and the cost of waits, for each kind of wait."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import psutil
from confluent_kafka import Consumer, ConsumerGroupState, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from interlock import Event
from interlock.engine.config import BusConfig
from interlock.engine.kafka.reader import consume
from interlock.engine.kafka.topics import create
from interlock.events.kafka import encode

from ..engine.load import put
from ..engine.plain_client import READS
from ..lines import percentile, point, progress, report, table_cell

CAP_S: Final = 180.0  # time limit of a run, from the start of its waits
JOIN_S: Final = 60.0  # time limit for the consumers to join
IDLE_S: Final = 5.0
RATE: Final = 50  # events/s
FOR_P99: Final = 100  # least number of waits for a p99
SETTLE_S: Final = 3.0  # after the consumers have joined and the waits are registered
OURS: Final = "interlock"
# As in their docs: AwaitMessageTrigger has a group for each wait, since each must see all messages, and a
# function as filter; the shared stream has one group, enable.auto.commit=false and a filter. "earliest": a
# consumer that joins late misses nothing.
TUNED: Final = "poll_timeout=0.01, poll_interval=0, commit_offset=False"
# {kind: (its name, numbers of waits, waits per process or None for all in one)}
KINDS: Final[dict[str, tuple[str, tuple[int, ...], int | None]]] = {
    "interlock": ("Interlock", (1, 20, 100, 1000), None),
    "await": ("AwaitMessageTrigger, its defaults", (1, 20, 100), None),
    "await-tuned": (f"AwaitMessageTrigger, {TUNED}", (1, 20, 100), None),
    "shared": ("KafkaSharedStreamTrigger", (1, 20, 100, 1000), None),
    "loop": ("consumer loop, a process each", (1, 20), 1),
}


@dataclass
class Costs:
    """The costs of a kind and number of waits. latencies_s: of the waits that were met in time."""

    waits: int
    threads: int = 0
    kib: float = 0.0
    idle_percent: float = 0.0
    latencies_s: list[float] = field(default_factory=list)


def run(bootstrap_servers: str) -> None:
    """Measures each kind with its numbers of waits; ratios are to Interlock's with the same number."""
    ours: dict[int, Costs] = {}
    # Interlock's runs share a warm bus: a bus is created once, and a broker's first write to each file takes
    # milliseconds. Peers read their topic from the beginning, so each run has its own.
    progress("Interlock, not counted")
    bus = BusConfig(name=f"peers-{OURS}", client={"bootstrap.servers": bootstrap_servers})
    create(bus, partitions=1)
    _measured(bus, OURS, 1, None)
    for kind, (name, counts, waits_per_process) in KINDS.items():
        for count in counts:
            who = f"{name}, {_waits(count)}"
            progress(who)
            try:
                config = bus
                if kind != OURS:
                    config = BusConfig(name=f"peers-{kind}-{count}", client=bus.client)
                    create(config, partitions=1)
                found = _measured(config, kind, count, waits_per_process)
            except (psutil.Error, OSError) as error:
                progress(f"{who}: {error}")
                at = table_cell("ms from event acknowledged to wait met, p50", name, _waits(count))
                about = f"{who}: did not finish, its process ended or did not join"
                report(about, CAP_S * 1000, "ms", finished=False, **at)
                continue
            if kind == OURS:
                ours[count] = found
            _report(name, who, found, ours.get(count))


def _measured(config: BusConfig, kind: str, count: int, waits_per_process: int | None) -> Costs:
    """Measures one kind. TimeoutError if a process does not start, or its consumers do not join."""
    met: dict[int, float] = {}
    numbers = list(range(count))
    share = waits_per_process or count
    hosts = [_Host(kind, numbers[at : at + share], config, met) for at in range(0, count, share)]
    try:
        for host in hosts:
            if not host.imported.wait(JOIN_S):
                raise TimeoutError("a process of waits did not start")
        # A wait in its own process costs the whole process; waits in a common one, what they add to it.
        before = 0.0 if waits_per_process else sum(host.uss_kib() for host in hosts)
        registered = _registrations(config) if kind == OURS else 0
        deadline = time.monotonic() + CAP_S
        for host in hosts:
            host.begin()
        _until_groups(config, count if kind.startswith("await") or waits_per_process else 1)
        if kind == OURS:  # a group is stable before the last wait is registered
            _until(lambda: _registrations(config) >= registered + count, "too few waits are registered")
        time.sleep(SETTLE_S)
        found = Costs(count)
        began, used = time.monotonic(), sum(host.cpu_s() for host in hosts)
        time.sleep(IDLE_S)
        found.idle_percent = 100 * (sum(host.cpu_s() for host in hosts) - used) / (time.monotonic() - began)
        found.threads = sum(host.process.num_threads() for host in hosts)
        found.kib = (sum(host.uss_kib() for host in hosts) - before) / count
        sent = _emit(config, count)
        while len(met) < count and time.monotonic() < deadline:
            time.sleep(0.05)
        found.latencies_s = [at - sent[number] for number, at in dict(met).items()]
        return found
    finally:
        for host in hosts:
            host.kill()
        if kind == OURS:  # so that the next engine on this bus does not wait for the dead one's session
            _until_groups(config, 0)


def _until_groups(config: BusConfig, count: int) -> None:
    """Waits until `count` groups of the bus are stable, or for 0 none. TimeoutError after JOIN_S."""
    admin = AdminClient(dict(config.client))

    def fact() -> bool:
        listed = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(10).valid
        stable = sum(group.group_id.startswith(config.name) for group in listed)
        return stable >= count if count else not stable

    _until(fact, "too few consumer groups are stable" if count else "consumer groups still exist")


def _until(fact: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + JOIN_S
    while not fact():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{otherwise} after {JOIN_S:.0f} s")
        time.sleep(0.5)


def _registrations(config: BusConfig) -> int:
    """How many registrations have been written to the bus."""
    consumer = Consumer({**config.client, **READS})
    consumer.assign([TopicPartition(config.topic("subscription"), 0, 0)])
    found = 0
    try:
        while True:
            for message in consume(consumer, 10_000, 1.0):
                if message.error() is not None:  # the end
                    return found
                key = message.key() or b""  # another kind of record has a slash, or no colon
                found += message.value() is not None and b":" in key and b"/" not in key
    finally:
        consumer.close()


class _Host:
    """A process of waits, and a thread that reads its output."""

    def __init__(self, kind: str, numbers: list[int], config: BusConfig, met: dict[int, float]) -> None:
        given = [kind, ",".join(map(str, numbers)), config.client["bootstrap.servers"], config.name]
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "bench.peers.host", *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"},
        )
        self.process = psutil.Process(self._popen.pid)
        self.imported = threading.Event()
        self._met = met
        threading.Thread(target=self._read, daemon=True).start()

    def begin(self) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write("begin\n")
        self._popen.stdin.flush()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            words = line.split()
            if words == ["imported"]:
                self.imported.set()
            elif len(words) == 2 and words[0].isdigit():
                self._met[int(words[0])] = float(words[1])
            elif words[:1] == ["failed"]:
                progress(f"a wait {line.strip()}")

    def uss_kib(self) -> float:
        return float(self.process.memory_full_info().uss) / 1024

    def cpu_s(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait()


def _emit(config: BusConfig, count: int) -> dict[int, float]:
    """Sends an event for each wait in random order. Returns {wait: time of the acknowledgement}."""
    producer = Producer({**config.client, "linger.ms": 0})
    sent: dict[int, float] = {}
    numbers = list(range(count))
    random.Random(count).shuffle(numbers)
    started = time.monotonic()
    for position, number in enumerate(numbers):
        event = Event.of("peer", "/bench", id=str(number), subject=f"k{number}", data={"k": f"k{number}"})
        key, value, headers = encode(event)
        put(
            producer,
            config.topic("event"),
            value,
            key,
            headers=headers,
            on_delivery=lambda _error, _message, number=number: sent.setdefault(number, time.monotonic()),
        )
        while time.monotonic() < started + (position + 1) / RATE:
            producer.poll(0.001)
    producer.flush(30)
    return sent


def _report(name: str, who: str, found: Costs, ours: Costs | None) -> None:
    column = _waits(found.waits)
    missed = found.waits - len(found.latencies_s)
    at = table_cell(f"waits that were not met within {CAP_S:.0f} s", name, column)
    report(f"{who}: not met within {CAP_S:.0f} s", missed, "waits", **at)
    for share, word in ((0.5, "p50"), (0.99, "p99")):
        if word == "p99" and found.waits < FOR_P99:
            continue
        taken, own = _percentile(found, share), ours and _percentile(ours, share)
        at = table_cell(f"ms from event acknowledged to wait met, {word}", name, column)
        which = word if found.waits > 1 else "of one event"
        about = f"{who}: event acknowledged -> the wait is met, {which}"
        if taken == math.inf:
            report(f"{about}: did not finish", CAP_S * 1000, "ms", finished=False, **at)
            continue
        cost = point(name, found.waits, taken * 1000, f"ms from event to wait met, {word}")
        ratio = taken / own if own and own < math.inf else None
        report(about, taken * 1000, "ms", ratio, **cost, **at)
    at = table_cell("KiB of memory for each wait", name, column)
    cost = point(name, found.waits, found.kib, "KiB/wait")
    ratio = found.kib / ours.kib if ours else None
    report(f"{who}: memory of each", found.kib, "KiB", ratio, **cost, **at)
    at = table_cell("threads", name, column)
    cost = point(name, found.waits, found.threads, "threads")
    ratio = found.threads / ours.threads if ours else None
    report(f"{who}: threads", found.threads, "threads", ratio, **cost, **at)
    at = table_cell("% of a core while nothing comes", name, column)
    report(f"{who}: CPU while nothing comes", found.idle_percent, "% of a core", **at)


def _waits(count: int) -> str:
    return f"{count} wait{'' if count == 1 else 's'}"


def _percentile(found: Costs, share: float) -> float:
    """A percentile of all waits; the latency of a wait that was not met is infinite."""
    return percentile([*found.latencies_s, *[math.inf] * (found.waits - len(found.latencies_s))], share)
