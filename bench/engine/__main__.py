"""`make bench-engine`: one broker, all questions; ONLY=throughput,latency,eventloop,timers,..."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from interlock.plugin.broker import LocalBroker

from ..lines import progress
from . import latency, protocols, recovery, registration, start, throughput, timers


def _number(name: str, default: int) -> int:
    return int(os.environ.get(name) or default)


QUESTIONS: dict[str, Callable[[str], None]] = {
    "throughput": lambda at: throughput.run(
        at, _number("EVENTS", 200_000), _number("SUBSCRIPTIONS", 100_000)
    ),
    "latency": lambda at: latency.run(at, _number("RATE", 2_000), 15),
    "eventloop": lambda at: latency.event_loop_delay(at, 20_000, 15),
    "timers": lambda at: timers.run(at, _number("RATE", 2_000)),
    "recovery": lambda at: recovery.open_keys(at, _number("KEYS", 1_000_000)),
    "failover": recovery.killed_inside_a_transaction,
    "protocols": lambda _: protocols.run(),
    "start": lambda at: start.run(at, _number("ENDED", 1_000_000)),
    "registration": lambda at: registration.run(at, _number("EVENTS", 1_000_000)),
}


def main() -> None:
    only = [name for name in os.environ.get("ONLY", "").split(",") if name] or list(QUESTIONS)
    with (
        tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder,
        LocalBroker(Path(folder), report=progress) as broker,
    ):
        for name in only:
            progress(f"== {name}")
            QUESTIONS[name](broker.bootstrap_servers)


if __name__ == "__main__":
    main()
