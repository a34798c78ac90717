"""Failover: an engine is killed inside a transaction; how soon another one has caught up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time

from confluent_kafka import Producer
from interlock import Event
from interlock.engine.config import BusConfig
from interlock.engine.runtime.runtime import run_engine
from interlock.events.kafka import encode

from ..lines import Aim, progress, report
from .firings import firings_of
from .load import PARTITIONS, SOLO, new_bus, put, run_until_open, subscribe
from .process import command
from .protocols import CLASSIC, failover

RATE = 500  # events/s: enough that every pass of the survivor has something to do
DEADLINE_S = 120.0


def run(bootstrap_servers: str) -> None:
    """Measures the seconds from a SIGKILL inside a transaction until all earlier events have fired.

    The baseline is a plain consumer group, one of whose two members is killed. The load continues all the
    time, so the surviving engine is busy with its own partitions.
    """
    progress("a plain consumer group")
    bare = failover(bootstrap_servers, "failover-bare", CLASSIC)
    report("plain consumer group: SIGKILL of a member -> the other reads what it had", bare, "s")
    config = new_bus("failover", bootstrap_servers)
    subscribe(config, [("solo", SOLO, None)], durable=True)
    run_until_open(config)
    stop = threading.Event()
    survivor = threading.Thread(target=run_engine, args=(config, stop))
    load = _Load(config, RATE)
    survivor.start()
    load.start()
    victim = subprocess.Popen(command("dying", config))
    try:
        killed_at = _killed(victim)
        before = load.sent
        took = load.fired_until(before, killed_at)
        later = load.sent - before
        load.stop()
        load.check()
        report(
            "SIGKILL inside a transaction, load continues -> all earlier events have fired",
            took,
            "s",
            took / bare,
            aim=Aim("figure at most", 12),
            rate=RATE,
            sent_before=before,
            sent_since=later,
        )
        report("the longest time from sending to firing meanwhile", load.longest(), "s")
    finally:
        if victim.poll() is None:
            os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
        load.end()
        stop.set()
        survivor.join()


def _killed(victim: subprocess.Popen[bytes]) -> float:
    """Waits until the victim has killed itself; returns the time."""
    deadline = time.monotonic() + DEADLINE_S
    while victim.poll() is None:
        if time.monotonic() > deadline:
            raise SystemExit("bench: the engine that should be killed got no partition")
        time.sleep(0.005)
    return time.monotonic()


class _Load:
    """Sends events at a steady rate, and records when the firing of each became readable."""

    def __init__(self, config: BusConfig, rate: int) -> None:
        self._config, self._rate = config, rate
        self.sent = 0
        self._sent_at: list[float] = []
        self._fired_at: dict[int, float] = {}
        self._repeated: list[int] = []
        self._stop_emitting, self._stop_reading = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=self._emit), threading.Thread(target=self._read)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def fired_until(self, count: int, since: float) -> float:
        """Seconds from `since` until the first `count` events have fired."""
        deadline = time.monotonic() + DEADLINE_S
        while any(n not in self._fired_at for n in range(count)):
            if time.monotonic() > deadline:
                raise SystemExit(f"bench: only {len(self._fired_at)} of {self.sent} events fired")
            time.sleep(0.05)
        return max(self._fired_at[n] for n in range(count)) - since

    def longest(self) -> float:
        return max(at - self._sent_at[n] for n, at in self._fired_at.items())

    def stop(self) -> None:
        """Stops sending."""
        self._stop_emitting.set()
        self._threads[0].join()

    def check(self) -> None:
        """Ends the bench unless each event has fired once."""
        self.fired_until(self.sent, 0.0)
        if self._repeated:
            raise SystemExit(f"bench: events {self._repeated[:5]} fired twice")

    def end(self) -> None:
        self.stop()
        self._stop_reading.set()
        self._threads[1].join()

    def _emit(self) -> None:
        producer = Producer({**self._config.client, "linger.ms": 5, "partitioner": "murmur2_random"})
        started = time.monotonic()
        while not self._stop_emitting.wait(0.005):
            for n in range(self.sent, int((time.monotonic() - started) * self._rate)):
                event = Event.of("solo", "/bench", id=str(n), subject=f"s{n % 1000}")
                key, value, headers = encode(event)
                self._sent_at.append(time.monotonic())
                put(producer, self._config.topic("event"), value, key, headers=headers)
                self.sent = n + 1
            producer.poll(0)
        producer.flush()

    def _read(self) -> None:
        consumer = firings_of(self._config, PARTITIONS)
        while not self._stop_reading.is_set():
            for message in consumer.consume(1000, 0.02):
                if message.error() is None:
                    [event] = json.loads(message.value() or b"")["firing"]["events"]["solo"]
                    number = int(event["id"])
                    if number in self._fired_at:
                        self._repeated.append(number)
                    self._fired_at.setdefault(number, time.monotonic())
        consumer.close()
