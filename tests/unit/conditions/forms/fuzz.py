"""`make fuzz-forms`: random and costly inputs for all readers, for FUZZ_SECONDS, in a limited process.

Prints the slowest input of each kind as a line of JSON; the aim is 50 ms and 64 MB for each. An input that
raises anything except ConditionError, or exceeds the limits of the process, ends the run with exit code 1.
To repeat an input, give its kind and seed: `python -m tests.unit.conditions.forms.fuzz KIND SEED`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

from interlock.conditions import ConditionError
from interlock.conditions.filters.cel import where as cel
from interlock.conditions.nodes import calendar

from .hostile import READERS

AIM_MS = 50.0
AIM_MB = 64.0
MAX_ADDRESS_BYTES = 2 * 1024**3  # the CEL library maps much memory and uses little of it
_SLOWEST = 8  # of each kind, measured again, because other processes may have delayed them


class Timed(NamedTuple):
    ms: float
    name: str
    given: Any


def read(kind: str, given: Any) -> None:
    """Read it, ignoring ConditionError only."""
    cel._compiled.cache_clear()  # otherwise an expression that another input compiled would cost nothing
    calendar._calendar.cache_clear()
    with contextlib.suppress(ConditionError):
        READERS[kind].read(given)


def once(kind: str, given: Any) -> float:
    """Milliseconds that it took, including the time of other processes."""
    started = time.perf_counter()
    read(kind, given)
    return (time.perf_counter() - started) * 1000


def processor(kind: str, given: Any) -> float:
    """Milliseconds of processor time; the mean of several runs, because the clock may be coarse."""
    started, spent, times = time.process_time(), 0.0, 0
    while times < 50 and spent < 200:
        read(kind, given)
        times += 1
        spent = (time.process_time() - started) * 1000
    return spent / times


def memory(kind: str, given: Any) -> float:
    """Peak megabytes that Python allocates to read it."""
    tracemalloc.start()
    try:
        read(kind, given)
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def resident() -> float:
    """Peak megabytes of the process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def size(given: Any) -> int:
    """Characters or bytes, or those of its JSON."""
    if isinstance(given, (str, bytes)):
        return len(given)
    try:
        return len(json.dumps(given, skipkeys=True, default=str))
    except (RecursionError, ValueError):
        return -1


def line(question: str, kind: str, slowest: list[Timed], inputs: int) -> None:
    measured = [timed._replace(ms=processor(kind, timed.given)) for timed in slowest]
    ms, name, given = max(measured, key=lambda timed: timed.ms)
    mb = memory(kind, given)
    line = {
        "question": f"{question}: {kind}",
        "figure": round(ms, 2),
        "unit": "ms",
        "size": size(given),
        "mb": round(mb, 2),
        "inputs": inputs,
        "input": name,
        "aim": "met" if ms <= AIM_MS and mb <= AIM_MB else f"{AIM_MS:g} ms, {AIM_MB:g} MB: missed",
    }
    print(json.dumps(line), flush=True)


def slower(worst: list[Timed], ms: float, name: str, given: Any) -> None:
    if len(worst) < _SLOWEST or ms > worst[-1].ms:
        worst.append(Timed(ms, name, given))
        worst.sort(key=lambda timed: -timed.ms)
        del worst[_SLOWEST:]


def run(seconds: float, note: Path) -> None:
    """The limited process. note: the file with the input that is being read."""
    for kind, reader in READERS.items():  # modules that are loaded on first use
        for number in range(20):
            read(kind, reader.random_input(random.Random(number)))
    for kind, reader in READERS.items():
        known: list[Timed] = []
        count = 0
        for name, given in reader.worst():
            note.write_text(f"{kind}: {name}")
            count += 1
            slower(known, once(kind, given), name, given)
        if known:
            line("costliest known input", kind, known, count)
    first = int(os.environ.get("FUZZ_SEED") or time.time_ns() % 10**9)
    for kind in READERS:
        found: list[Timed] = []
        seed, end = first, time.monotonic() + seconds / len(READERS)
        while time.monotonic() < end:
            note.write_text(f"{kind} {seed}")
            given = READERS[kind].random_input(random.Random(seed))
            slower(found, once(kind, given), f"seed {seed}", given)
            seed += 1
        line("slowest random input", kind, found, seed - first)
    print(
        json.dumps(
            {"question": "memory of the process at most", "figure": round(resident(), 1), "unit": "MB"}
        )
    )


def main(arguments: list[str]) -> int:
    if len(arguments) == 2:
        kind, seed = arguments
        given = READERS[kind].random_input(random.Random(int(seed)))
        print(repr(given)[:2000])
        print(f"{processor(kind, given):.2f} ms, {memory(kind, given):.2f} MB")
        return 0
    seconds = float(os.environ.get("FUZZ_SECONDS") or 120)
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "input"
        if arguments == ["limited"]:
            run(seconds, Path(os.environ["FUZZ_NOTE"]))
            return 0

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_BYTES, MAX_ADDRESS_BYTES))
            cpu = int(seconds) + 120
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))

        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, "limited"],
            env={**os.environ, "FUZZ_NOTE": str(note)},
            preexec_fn=limit,
            check=False,
        )
        if done.returncode:
            print(f"fuzz-forms: ended with {done.returncode} at {note.read_text()}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
