"""The cost of a process and its descendants: processor time, memory, threads, Kafka clients."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil

CLIENT_THREAD = "rdk:main"  # every librdkafka client has one of this name


@dataclass(frozen=True)
class Figures:
    """cpu_windows: percent of a core in each window. uss_kib: memory not shared with other processes."""

    cpu_windows: tuple[float, ...]
    uss_kib: int
    threads: int
    kafka_clients: int

    @property
    def cpu_percent(self) -> float:
        return round(median(self.cpu_windows), 1)

    def form(self) -> dict[str, Any]:
        return {"cpu_percent": self.cpu_percent, **vars(self)}


def measure(pid: int, window_s: float, windows: int = 1) -> Figures:
    """Measures the process and its descendants, which must stay the same during all windows."""
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return Figures(
        cpu_windows=tuple(_cpu_percent(family, window_s) for _ in range(windows)),
        uss_kib=sum(each.memory_full_info().uss for each in family) // 1024,
        threads=sum(each.num_threads() for each in family),
        kafka_clients=sum(map(_clients, family)),
    )


def _cpu_percent(family: list[psutil.Process], window_s: float) -> float:
    before, began = sum(map(_cpu_s, family)), time.monotonic()
    time.sleep(window_s)
    used, took = sum(map(_cpu_s, family)) - before, time.monotonic() - began
    return round(100 * used / took, 1)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _clients(process: psutil.Process) -> int:
    found = 0
    for name in Path(f"/proc/{process.pid}/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # the thread has ended
            found += name.read_text().strip() == CLIENT_THREAD
    return found
