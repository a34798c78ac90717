"""`make test-long`: everything that takes long, one after the other; goes on after a failure.

At the end a table: what ran, with which result, and how long it took. Ends with 1 when anything failed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUPPORTED = range(11, 15)  # minor versions of Python 3, as `requires-python` in pyproject.toml


@dataclass(frozen=True)
class Step:
    """One target of make. shows: what a reader of the table learns from its success."""

    name: str
    command: tuple[str, ...]
    shows: str
    missing: str = ""  # why it cannot run here; it then counts neither as passed nor as failed


@dataclass(frozen=True)
class Result:
    step: Step
    outcome: str
    seconds: float


def other_pythons() -> list[str]:
    """Supported Pythons on PATH beside the one of this environment."""
    names = (f"python3.{minor}" for minor in SUPPORTED if minor != sys.version_info.minor)
    return [name for name in names if shutil.which(name)]


def steps() -> list[Step]:
    pythons = other_pythons()
    return [
        Step(
            "marked", ("test-marked-long",), "tests marked `long`: all Spark exits, whole demos, chaos minute"
        ),
        Step("simulate", ("simulate", "SEEDS=100000"), "100,000 simulated worlds keep the invariants"),
        Step("fuzz", ("fuzz",), "random conditions and texts that no run has tried"),
        Step("chaos", ("chaos", "SECONDS=600"), "ten minutes of faults lose, repeat and leak nothing"),
        Step("chaos-plants", ("chaos-plants",), "the oracle of chaos sees each planted fault"),
        Step("archive-kill", ("archive-kill",), "an archive killed while events arrive holds what was sent"),
        Step(
            "backtest-scale", ("backtest-scale",), "a million events in 512 MB, as a plain loop judges them"
        ),
        Step("ha", ("ha",), "two triggerers on PostgreSQL under faults"),
        Step("airflow-oldest", ("test-airflow-oldest",), "the oldest supported Airflow"),
        Step("broker-oldest", ("test-broker-oldest",), "the oldest supported broker"),
        Step(
            "pythons",
            ("test-pythons", f"PYTHONS={' '.join(pythons)}"),
            f"unit tests on {', '.join(pythons) or 'other Pythons'}",
            "" if pythons else "no other supported Python (3.11 to 3.14) on PATH",
        ),
    ]


def run(step: Step) -> Result:
    if step.missing:
        return Result(step, f"not run: {step.missing}", 0.0)
    print(f"\n== {step.name}: make {' '.join(step.command)}", flush=True)
    began = time.monotonic()
    code = subprocess.run(["make", *step.command], cwd=ROOT, check=False).returncode
    return Result(step, "passed" if code == 0 else f"FAILED ({code})", time.monotonic() - began)


def table(results: Sequence[Result]) -> list[str]:
    width = max(len(result.outcome) for result in results)
    return [
        f"{result.step.name:15} {result.outcome:{width}} {result.seconds / 60:7.1f} min  {result.step.shows}"
        for result in results
    ]


def main() -> int:
    known = {step.name: step for step in steps()}
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__)
    parser.add_argument("only", nargs="*", help=f"some of: {', '.join(known)}")
    only = parser.parse_args().only
    if unknown := set(only) - set(known):
        parser.error(f"no such step: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    results = []
    try:
        for step in known.values():
            if not only or step.name in only:
                results.append(run(step))
    finally:
        print("\n== make test-long", *table(results), sep="\n", flush=True)
    return any(result.outcome.startswith("FAILED") for result in results)


if __name__ == "__main__":
    sys.exit(main())
