"""What a process and its descendants cost: processor time, memory, threads, Kafka clients."""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

CLIENT_THREAD = "rdk:main"  # every librdkafka client has one of this name


@dataclass(frozen=True)
class Figures:
    """cpu_percent: of one core, over the time measured. uss_kib: memory that no other process shares."""

    cpu_percent: float
    uss_kib: int
    threads: int
    kafka_clients: int

    def form(self) -> dict[str, Any]:
        return asdict(self)


def measure(pid: int, seconds: float) -> Figures:
    """Of the process and its descendants, which must stay the same meanwhile. Takes this long."""
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    before, began = sum(map(_cpu_s, family)), time.monotonic()
    time.sleep(seconds)
    used, took = sum(map(_cpu_s, family)) - before, time.monotonic() - began
    return Figures(
        cpu_percent=round(100 * used / took, 1),
        uss_kib=sum(each.memory_full_info().uss for each in family) // 1024,
        threads=sum(each.num_threads() for each in family),
        kafka_clients=sum(map(_clients, family)),
    )


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _clients(process: psutil.Process) -> int:
    found = 0
    for name in Path(f"/proc/{process.pid}/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # the thread has ended
            found += name.read_text().strip() == CLIENT_THREAD
    return found
