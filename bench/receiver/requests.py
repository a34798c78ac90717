"""The receiver's cost of a request beside a bare server, its delay and its rate beside a plain producer."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, Message, Producer
from interlock.engine.config import BusConfig
from interlock.events import Event
from interlock.events.http import JSON_BATCH, encode
from interlock.events.kafka import encode as encode_record

from ..engine.load import new_bus, put, unmatched
from ..lines import Aim, percentile, report
from ..sizes import number
from .client import posted, repeat
from .knative import PROGRAM, knative
from .serving import Serving, starting

TURNS: Final = 5
SECONDS: Final = 2.0  # of a turn
CONNECTIONS: Final = 32
WARM_S: Final = 15.0  # until a JVM has compiled what it runs often
SENDERS: Final = 8  # connections that send batches
BATCH: Final = 100
_COST: Final = f"processor time of a request, {CONNECTIONS} connections"
_RATE: Final = f"requests, {CONNECTIONS} connections"
PRODUCER: Final = {"acks": "all", "enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": 0}


def run(bootstrap_servers: str) -> None:
    """EVENTS: how many a turn of the plain producer writes. KNATIVE_RECEIVER: see bench/README.md."""
    config = new_bus("receiver", bootstrap_servers)
    producer = Producer({**config.client, **PRODUCER})
    events = list(unmatched(BATCH))
    headers, body = encode(events[0])
    single = posted(dict(headers), body)
    batch = json.dumps([each.to_json_dict() for each in events]).encode()
    with Serving(starting("bare", config)) as bare, Serving(starting("receiver", config)) as receiver:
        for each in (bare, receiver):
            repeat(each.port, single, CONNECTIONS, SECONDS)  # not counted: the first requests are slower
        _cost(bare, receiver, single)
        _delay(config, producer, receiver, single, events[0])
        _rate(config, producer, receiver, posted({"content-type": JSON_BATCH}, batch), events)
    if program := os.environ.get(PROGRAM):
        _peer(config, single, program)


class _Turns(NamedTuple):
    cpu_us: list[float]  # processor time of a request: the server's alone, so the broker does not count
    rates: list[float]  # requests a second


def _in_turns(servers: Sequence[Serving], request: bytes) -> list[_Turns]:
    found = [_Turns([], []) for _ in servers]
    for _ in range(TURNS):
        for server, turns in zip(servers, found, strict=True):
            before, started = server.cpu_s(), time.perf_counter()
            count = len(repeat(server.port, request, CONNECTIONS, SECONDS))
            turns.rates.append(count / (time.perf_counter() - started))
            turns.cpu_us.append((server.cpu_s() - before) / count * 1e6)
    return found


def _cost(bare: Serving, receiver: Serving, request: bytes) -> None:
    floor, ours = _in_turns((bare, receiver), request)
    report(f"bare ASGI app: {_COST}", statistics.median(floor.cpu_us), "us", turns=floor.cpu_us)
    aim = Aim("ratio at most", 3.5)
    ratio = _ratio(ours.cpu_us, floor.cpu_us)
    report(f"receiver: {_COST}", statistics.median(ours.cpu_us), "us", ratio, aim=aim, turns=ours.cpu_us)
    report(f"receiver: {_RATE}", statistics.median(ours.rates), "requests/s", turns=ours.rates)


def _peer(config: BusConfig, request: bytes, program: str) -> None:
    """Two workers beside the receiver of Knative's Kafka broker."""
    with Serving(starting("receiver", config, workers=2)) as receiver, knative(program, config) as peer:
        for each in (receiver, peer):
            repeat(each.port, request, CONNECTIONS, WARM_S)
        theirs, ours = _in_turns((peer, receiver), request)
    about = "receiver with two workers"
    report(f"Knative's receiver: {_COST}", statistics.median(theirs.cpu_us), "us", turns=theirs.cpu_us)
    ratio = _ratio(ours.cpu_us, theirs.cpu_us)
    report(f"{about}: {_COST}", statistics.median(ours.cpu_us), "us", ratio, turns=ours.cpu_us)
    report(f"Knative's receiver: {_RATE}", statistics.median(theirs.rates), "requests/s", turns=theirs.rates)
    ratio = _ratio(ours.rates, theirs.rates)
    report(f"{about}: {_RATE}", statistics.median(ours.rates), "requests/s", ratio, turns=ours.rates)


def _delay(config: BusConfig, producer: Producer, receiver: Serving, request: bytes, event: Event) -> None:
    """From one request to its answer on one connection, beside one record and its acknowledgement."""
    alone, own = list[float](), list[float]()
    for _ in range(TURNS):
        until, found = time.perf_counter() + SECONDS / 2, list[float]()
        while time.perf_counter() < until:
            started = time.perf_counter()
            _write(config, producer, [event])
            found.append(time.perf_counter() - started)
        alone.append(percentile(found, 0.5) * 1000)
        own.append(percentile(repeat(receiver.port, request, 1, SECONDS / 2), 0.5) * 1000)
    report("plain producer: one event -> acknowledged, p50", statistics.median(alone), "ms", turns=alone)
    aim = Aim("ratio at most", 2.5)
    about = "receiver: one request -> answer, one connection, p50"
    report(about, statistics.median(own), "ms", _ratio(own, alone), aim=aim, turns=own)


def _rate(
    config: BusConfig, producer: Producer, receiver: Serving, request: bytes, events: Sequence[Event]
) -> None:
    alone, own = list[float](), list[float]()
    rounds = max(1, number("EVENTS", 50_000) // BATCH)
    for _ in range(TURNS):
        started = time.perf_counter()
        _write(config, producer, list(events) * rounds)
        alone.append(rounds * BATCH / (time.perf_counter() - started))
        started = time.perf_counter()
        count = BATCH * len(repeat(receiver.port, request, SENDERS, SECONDS))
        own.append(count / (time.perf_counter() - started))
    report("plain producer: events acknowledged", statistics.median(alone), "events/s", turns=alone)
    aim = Aim("ratio at least", 0.6)
    about = f"receiver: events in batches of {BATCH}, {SENDERS} connections"
    report(about, statistics.median(own), "events/s", _ratio(own, alone), aim=aim, turns=own)


def _write(config: BusConfig, producer: Producer, events: Sequence[Event]) -> None:
    left = [len(events)]

    def acknowledged(error: KafkaError | None, _: Message) -> None:
        left[0] -= error is None

    for each in events:
        key, value, headers = encode_record(each)
        put(producer, config.topic("event"), value, key, headers=headers, on_delivery=acknowledged)
        producer.poll(0)
    producer.flush(30)
    if left[0]:
        raise SystemExit("bench: some events were not acknowledged")


def _ratio(own: Sequence[float], baseline: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(own, baseline, strict=True))
