"""The cost of emitting: one event until its acknowledgement, many at once, and the first of a process."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from confluent_kafka import Producer
from interlock.engine.config import BusConfig
from interlock.events import Emitter, Event
from interlock.events.kafka import encode

from .engine.load import event_of, new_bus
from .lines import percentile, point, report

SINGLE = 500
FIRST = 7
BATCHES = (10, 100, 1_000, 10_000)
TURNS = 7


def run(bootstrap_servers: str) -> None:
    config = new_bus("emit", bootstrap_servers)
    topic = config.topic("event")
    events = [event_of("emitted", n, f"s{n % 1000}") for n in range(max(BATCHES))]
    raw = Producer(
        {**config.client, "acks": "all", "enable.idempotence": True, "partitioner": "murmur2_random"}
    )

    def sent(batch: list[Event]) -> None:
        for each in batch:
            key, value, headers = encode(each)
            raw.produce(topic, value, key, headers=headers)  # type: ignore[arg-type]  # its stub is invariant
        if raw.flush(30):
            raise SystemExit("bench: some events were not acknowledged")

    with Emitter(config.client, topic) as emitter:
        sent(events)
        emitter.emit_all(events)  # not counted: a freshly started broker is slower
        taken = {"client alone": list[float](), "emit": list[float]()}
        for each in events[:SINGLE]:  # in turns
            taken["client alone"].append(_seconds(partial(sent, [each])))
            taken["emit"].append(_seconds(partial(emitter.emit, each)))
        for share, name in ((0.5, "p50"), (0.99, "p99")):
            bare, figure = (percentile(taken[who], share) * 1000 for who in ("client alone", "emit"))
            report(f"client alone: one event -> acknowledged, {name}", bare, "ms", events=SINGLE)
            report(f"emit: one event -> acknowledged, {name}", figure, "ms", figure / bare, events=SINGLE)
        for count in BATCHES:
            batch = events[:count]
            works = partial(sent, batch), partial(emitter.emit_all, batch)
            turns = [[_seconds(work) for work in works] for _ in range(TURNS)]
            alone, own = ([each / count * 1e6 for each in side] for side in zip(*turns, strict=True))
            about = f"{count} events -> acknowledged, each"
            floor = statistics.median(alone)
            cost = point("client alone, an event", count, floor, "us/event")
            report(f"client alone: {about}", floor, "us", turns=alone, **cost)
            figure = statistics.median(own)
            ratio = statistics.median(a / b for a, b in zip(own, alone, strict=True))
            cost = point("emit_all, an event", count, figure, "us/event")
            report(f"emit_all: {about}", figure, "us", ratio, turns=own, **cost)
    first = {who: list[float]() for who in ("client", "emit")}
    for _ in range(FIRST):
        for who, found in first.items():
            found.append(_first(config, topic, who))
    alone, own = ([each * 1000 for each in side] for side in first.values())
    about = "a new process's first event -> acknowledged, without its imports"
    report(f"client alone: {about}", statistics.median(alone), "ms", turns=alone)
    ratio = statistics.median(a / b for a, b in zip(own, alone, strict=True))
    report(f"emit: {about}", statistics.median(own), "ms", ratio, turns=own)


def _first(config: BusConfig, topic: str, who: str) -> float:
    """Seconds, in a process of its own: the client library is warm for a second emitter of a process."""
    settings = json.dumps(dict(config.client))
    command = [sys.executable, "-m", "bench.first_event", settings, topic, who]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
