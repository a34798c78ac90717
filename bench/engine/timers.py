"""How late timers fire: the time of the firing's record (the broker's clock) minus the due time."""

from __future__ import annotations

import json
import subprocess
import threading
import time

from interlock import Condition, absent, event
from interlock.engine.config import BusConfig

from ..lines import Aim, percentile, progress, report
from ..sizes import number
from .eventloop import produce_steadily
from .firings import firings_of
from .load import PARTITIONS, new_bus, run_until_open, subscribe
from .process import command

TIMERS = 500
FIRST_S, SPREAD_S = 15, 20  # the first is due when the engine has long been open, the others within SPREAD_S
DEADLINE_S = 120.0


def run(bootstrap_servers: str) -> None:
    """Measures timers of one-shot waits, without other events and with them."""
    rate = number("RATE", 2_000)
    for load in (0, rate):
        config = new_bus(f"timers-{load}", bootstrap_servers)
        run_until_open(config)
        ended = threading.Event()
        producing = threading.Thread(target=produce_steadily, args=(config, load, ended))
        engine = subprocess.Popen(command("running", config))
        producing.start()
        try:
            late_s = _late(config)
        finally:
            ended.set()
            producing.join()
            engine.terminate()
            engine.wait()
        for share, name in ((0.5, "p50"), (0.99, "p99")):
            figure = percentile(late_s, share) * 1000
            question = f"a timer fires after its time, at {load} other events/s, {name}"
            report(question, figure, "ms", aim=Aim("figure at most", 1000), timers=TIMERS)


def _late(config: BusConfig) -> list[float]:
    def silence(n: int) -> Condition:
        after = f"{FIRST_S * 1000 + n * SPREAD_S * 1000 // TIMERS}ms"
        return absent(event("never", by="subject"), after, armed_by="subscription")

    waits = ((f"t{n}", silence(n), f"k{n}") for n in range(TIMERS))
    subscribe(config, waits, durable=False, since_ms=int(time.time() * 1000))
    progress(f"{TIMERS} timers, due over {SPREAD_S} s")
    reader = firings_of(config, PARTITIONS)
    found: list[float] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < TIMERS:
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: only {len(found)} of {TIMERS} timers fired")
        for message in reader.consume(1000, 0.1):
            if message.error() is None:
                due_ms = json.loads(message.value() or b"")["firing"]["timer_ms"]
                found.append((message.timestamp()[1] - due_ms) / 1000)
    reader.close()
    return found
