"""Registration of waits: how many a second, when they take effect, and the cost of looking back."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import truediv
from typing import Any, Final

import psutil
from confluent_kafka import Producer
from interlock import event
from interlock.engine.bus import Committed, Output, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.kafka.wait_clients import LINGER_MS
from interlock.engine.protocol.loop import Engine
from interlock.engine.records import Registration, RegistrationKey, encode_json
from interlock.engine.waiting.notices import NoticeBoard
from interlock.engine.waiting.waits import Waits

from ..lines import percentile, point, progress, report
from ..sizes import number
from .load import (
    PAIR,
    PARTITIONS,
    PRODUCER,
    SOLO,
    event_of,
    new_bus,
    produce,
    send,
    solos,
    subscribe,
    unmatched,
)
from .plain_client import read_whole, write_and_read

BURSTS = (30, 300, 3_000, 30_000)
TURNS = 3
SINGLE = 30
LOOK_BACKS = 1000
LIVE = event("live")
WRITER: Final[Mapping[str, Any]] = {  # as the writer of waits
    "linger.ms": LINGER_MS,
    "compression.type": "lz4",
    "enable.idempotence": True,
    "acks": "all",
}
DEADLINE_S = 600.0


def run(bootstrap_servers: str) -> None:
    _registered(bootstrap_servers)
    _looked_back(bootstrap_servers, number("EVENTS", 1_000_000))


def _registered(bootstrap_servers: str) -> None:
    """Measures the time from a trigger's `open` until every partition matches events against the
    condition."""
    config = new_bus("registration", bootstrap_servers)
    with _engine(config) as engine, _waits(config) as waits:

        def opened(names: list[str]) -> float:
            wanted = len(engine.registry) + len(names)
            registrations = [Registration.of(name, PAIR, name, 0) for name in names]
            started = time.perf_counter()
            for registration in registrations:
                waits.open(registration, lambda _: None)
            _until(lambda: len(engine.registry) >= wanted and _applied(engine))
            return time.perf_counter() - started

        opened(["first"])
        took = [opened([f"single-{n}"]) for n in range(SINGLE)]
        for share, name in ((0.5, "p50"), (1.0, "max")):
            report(
                f"a wait is opened -> it is live, {name}", percentile(took, share) * 1000, "ms", waits=SINGLE
            )
        for count in BURSTS:
            bursts, plain = [], []
            for turn in range(TURNS):
                bursts.append(count / opened([f"burst-{count}-{turn}-{n}" for n in range(count)]))
                records = _records(count)
                plain.append(count / write_and_read(config, config.topic("dead-letter"), records, WRITER))
            about = f"plain client writes and reads the records of {count} waits"
            floor = statistics.median(plain)
            cost = point("plain client writes and reads its record", count, 1e6 / floor, "us/wait")
            report(about, floor, "waits/s", turns=plain, **cost)
            about = f"{count} waits registered together by one process"
            rate, ratio = statistics.median(bursts), statistics.median(map(truediv, bursts, plain))
            cost = point("registration of a wait", count, 1e6 / rate, "us/wait")
            report(about, rate, "waits/s", ratio, turns=bursts, **cost)


def _records(count: int) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of `count` registrations, as in the subscription topic."""
    for n in range(count):
        registration = Registration.of(f"plain-{count}-{n}", PAIR, f"plain-{count}-{n}", 0)
        yield RegistrationKey(registration.incarnation, "bench").encode(), encode_json(registration)


def _looked_back(bootstrap_servers: str, events: int) -> None:
    """Measures waits that look back over a long log to events at its end, while live events continue."""
    config = new_bus("look-back", bootstrap_servers)
    progress(f"writing {events} events")
    written = produce(config, unmatched(events)) + produce(config, solos(LOOK_BACKS))
    sizes: list[tuple[int, int]] = []
    with _engine(config, sizes) as engine:
        _until(lambda: engine.stats.consumed >= written)
        process, producer = psutil.Process(), Producer({**config.client, **PRODUCER})
        send(producer, config, [event_of("com.example.other", "warm", "s")])
        before = most = process.memory_info().rss
        subscribe(config, [("live", LIVE, None)], durable=True, since_ms=int(time.time() * 1000))
        _until(
            lambda: len(engine.registry) == 1 and _applied(engine)
        )  # otherwise it would look back with the others
        sizes.clear()
        looks = ((f"w{n}", SOLO, f"s{n}") for n in range(LOOK_BACKS))
        started = time.perf_counter()
        subscribe(config, looks, durable=False)
        waited: list[float] = []
        # Look-backs fire at the end of the log, so any earlier firing is that of the live event.
        while engine.stats.fired == len(waited):
            fired = engine.stats.fired
            send(producer, config, [event_of("live", len(waited), "live")])
            stored = time.perf_counter()
            _until(partial(_fired_more, engine, fired))
            waited.append(time.perf_counter() - stored)
            most = max(most, process.memory_info().rss)
        while engine.stats.fired < LOOK_BACKS + len(waited):
            most = max(most, process.memory_info().rss)
            time.sleep(0.05)
        took = time.perf_counter() - started
        # Last, since the memory it leaves behind is not that of look-backs. It reads the live events too.
        plain = read_whole(config, config.topic("event"), PARTITIONS)
        report(f"plain client reads the {written} events", plain, "s")
        about = f"{LOOK_BACKS} look-backs over {events} events"
        report(about, took, "s", took / plain)
        report(f"memory of {about}", (most - before) / 2**20, "MiB")
        report(f"{about}: records read for each event", engine.stats.scanned / written, "records")
        during = waited[:-1]  # the last one fired together with the look-backs
        for share, name in ((0.5, "p50"), (0.99, "p99")) if during else ():
            report(
                f"{about}: a live event is stored meanwhile -> it fires, {name}",
                percentile(during, share) * 1000,
                "ms",
                events=len(during),
            )
        records, size = max(records for records, _ in sizes), max(size for _, size in sizes)
        report(f"{about}: the largest transaction", size / 2**20, "MiB")
        report(f"{about}: the most records of a transaction", records, "records")


def _fired_more(engine: Engine, before: int) -> bool:
    return engine.stats.fired > before


class _Sized(KafkaBus):
    """Records the number of records and bytes of each transaction."""

    sizes: list[tuple[int, int]]

    def commit(
        self, outputs: Sequence[Output], offsets: Mapping[TopicPartition, Committed], membership: object
    ) -> int | None:
        self.sizes.append((len(outputs), sum(len(each.value or b"") for each in outputs)))
        return super().commit(outputs, offsets, membership)


@contextmanager
def _engine(config: BusConfig, sizes: list[tuple[int, int]] | None = None) -> Iterator[Engine]:
    bus = _Sized(config)
    bus.sizes = [] if sizes is None else sizes
    engine, over = Engine(bus, config), threading.Event()

    def passes() -> None:
        while not over.is_set():
            engine.run_pass()

    thread = threading.Thread(target=passes)
    thread.start()
    try:
        _until(lambda: engine.is_open and engine.up_to_date)
        yield engine
    finally:
        over.set()
        thread.join()
        engine.close()


@contextmanager
def _waits(config: BusConfig) -> Iterator[Waits]:
    waits, over = Waits(config, NoticeBoard()), threading.Event()
    thread = threading.Thread(target=waits.run, args=(over,))
    thread.start()
    try:
        yield waits
    finally:
        over.set()
        thread.join()


def _applied(engine: Engine) -> bool:
    """Whether all registrations are applied; `up_to_date` waits for their commit as well, which is not
    necessary: an engine that takes over applies the same ones."""
    position = engine.registry.position
    return all(task.applied == position for task in engine.ownership.tasks()) and not any(
        source.scans for source in engine.ownership.sources.values()
    )


def _until(fact: Callable[[], bool], look_s: float = 0.001) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not fact():
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: not done within {DEADLINE_S:.0f} s")
        time.sleep(look_s)
