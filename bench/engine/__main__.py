"""`make bench-engine`: one broker, all questions (ONLY=throughput,latency,recovery,failover,eventloop)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from interlock.plugin.broker import LocalBroker

from . import throughput
from .lines import progress

QUESTIONS = {
    "throughput": lambda servers: throughput.run(
        servers, int(os.environ.get("EVENTS", "200000")), int(os.environ.get("SUBSCRIPTIONS", "100000"))
    ),
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
