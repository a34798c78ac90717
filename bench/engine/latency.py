"""The latency from the append of an event to its readable firing, at a steady rate; each event fires."""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack

from confluent_kafka import Producer
from interlock import Event
from interlock.engine.kafka.reader import consume
from interlock.events.kafka import encode

from ..lines import Aim, percentile, point, report
from ..sizes import number
from .firings import firings_of
from .load import PARTITIONS, SOLO, new_bus, put, run_until_open, solos, subscribe
from .process import command

DEADLINE_S = 60.0
LEAST_OF_RATE = 0.97  # of the load: a load that falls behind would make everything look faster
AIM_AT = 2_000  # events/s: the load for which there is an aim
WARM_S = 4.0  # not counted: clients connect
TURNS = 3
TURN_S = 2.0
LEAD_S = 1.0  # at the start of a turn, not counted
FIRST_WARM_S = 20.0  # a freshly started broker is several times slower


def run(bootstrap_servers: str) -> None:
    """Measures event stored -> firing readable (read_committed), by the clock of this machine.

    The baseline is a client loop of two hops with the engine's settings (two_hops.py), which takes turns with
    the engine at the same rate.
    """
    rates = [number("RATE", 1)] if os.environ.get("RATE") else [100, 2_000, 20_000]
    warm_s = FIRST_WARM_S
    for rate in rates:
        with ExitStack() as stack:
            loop = stack.enter_context(_Side(bootstrap_servers, rate, raw=True))
            engine = stack.enter_context(_Side(bootstrap_servers, rate, raw=False))
            for side in (loop, engine):
                side.turn(warm_s, 0)
                warm_s = WARM_S
            turns = [(loop.turn(LEAD_S, TURN_S), engine.turn(LEAD_S, TURN_S)) for _ in range(TURNS)]
        _report(rate, [one for one, _ in turns], [two for _, two in turns])


def _report(rate: int, floors: Sequence[list[float]], turns: Sequence[list[float]]) -> None:
    for share, name, most in ((0.5, "p50", 15), (0.99, "p99", 60)):
        bare = [percentile(turn, share) * 1000 for turn in floors]
        taken = [percentile(turn, share) * 1000 for turn in turns]
        figure = statistics.median(taken)
        about = f"event stored -> firing readable at {rate} events/s, {name}"
        floor = statistics.median(bare)
        cost = point(f"client loop of two hops, {name}", rate, floor, "ms")
        report(f"client loop of two hops: {about}", floor, "ms", turns=bare, **cost)
        cost = point(f"Interlock, {name}", rate, figure, "ms")
        aim = Aim("figure at most", most) if rate == AIM_AT else None
        ratio = statistics.median(own / its for own, its in zip(taken, bare, strict=True))
        report(about, figure, "ms", ratio, aim=aim, turns=taken, **cost)


class _Side:
    """The engine or the loop on its own bus, with a producer and a reader of its firings."""

    def __init__(self, bootstrap_servers: str, rate: int, *, raw: bool) -> None:
        self._rate = rate
        self._config = new_bus(f"latency-{'raw' if raw else 'engine'}-{rate}", bootstrap_servers)
        subscribe(self._config, [("solo", SOLO, None)], durable=True)
        run_until_open(self._config)
        self._command = command("two_hops" if raw else "running", self._config)
        self._events = solos(sys.maxsize)
        self._stored: dict[str, float] = {}
        self._readable: dict[str, float] = {}
        self._over = threading.Event()
        self._reading = threading.Thread(target=self._read)

    def __enter__(self) -> _Side:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        self._reading.start()
        self._producer = Producer({**self._config.client, "linger.ms": 5, "partitioner": "murmur2_random"})
        self._send(next(self._events))
        self._until_all_fired()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._reading.join()
        self._process.terminate()
        self._process.wait()

    def turn(self, lead_s: float, seconds: float) -> list[float]:
        """Sends events at the rate; returns the latency of each in seconds, without those of the lead.

        Ends the bench if an event does not fire, or if the load falls behind.
        """
        self._stored.clear()
        self._readable.clear()
        count = int(self._rate * (lead_s + seconds))
        load = list(itertools.islice(self._events, count))
        started = time.monotonic()
        for n, event in enumerate(load):
            self._send(event)
            self._producer.poll(0)
            while time.monotonic() < started + n / self._rate:
                self._producer.poll(0.001)
        took = time.monotonic() - started
        self._until_all_fired()
        if count / took < LEAST_OF_RATE * self._rate:
            raise SystemExit(f"bench: sent {count / took:.0f} events/s instead of {self._rate}")
        return [self._readable[name] - at for name, at in self._stored.items() if at > started + lead_s]

    def _send(self, event: Event) -> None:
        key, value, headers = encode(event)
        name = event.id
        put(
            self._producer,
            self._config.topic("event"),
            value,
            key,
            headers=headers,
            on_delivery=lambda error, _: error or self._stored.setdefault(name, time.monotonic()),
        )

    def _until_all_fired(self) -> None:
        self._producer.flush()
        deadline = time.monotonic() + DEADLINE_S
        while len(self._readable) < len(self._stored):
            if time.monotonic() > deadline:
                raise SystemExit(f"bench: only {len(self._readable)} of {len(self._stored)} events fired")
            time.sleep(0.02)

    def _read(self) -> None:
        reader = firings_of(self._config, PARTITIONS, {"fetch.wait.max.ms": 10})
        while not self._over.is_set():
            for message in consume(reader, 10_000, 0.01):
                if message.error() is None:
                    value = message.value() or b""
                    start = value.index(b'"id":"solo') + 6
                    self._readable[value[start : value.index(b'"', start)].decode()] = time.monotonic()
