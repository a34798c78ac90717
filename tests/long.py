"""`make test-long`: everything that takes long; continues after a failure.

Three lanes run at the same time: steps that keep services busy, steps that mostly wait, and, with a lower
priority, steps that only compute. Each step writes its own log. At the end a table: what ran, with which
result, and how long it took. Ends with 1 when anything failed.

It takes hours, so a run that was ended can be continued: `--resume` does not repeat steps that passed at the
same commit.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / ".build" / "long"
LAST_LINES = 60  # of a failed step's log are printed
SUPPORTED = range(11, 15)  # minor versions of Python 3, as `requires-python` in pyproject.toml

# {name of a step: (folders whose tests marked `long` it runs, what these show)}
MARKED = {
    "engine": (
        ["tests/integration/engine"],
        "brokers that fail, refuse and return; 10,000 waits",
    ),
    "spark": (["tests/integration/spark"], "all ways in which a Spark job ends; archives and backtests"),
    "airflow": (["tests/integration/plugin", "tests/integration/triggers"], "killed and old Airflows"),
    "others": (
        ["tests/integration/chaos", "tests/integration/demo", "tests/integration/docs"]
        + ["tests/integration/packaging", "tests/unit"],
        "whole demos; installs from an index on each Python",
    ),
}


class Lane(Enum):
    """Steps that run one after the other, and what they ask of the machine."""

    BUSY = "services that keep a core busy"
    IDLE = "services that do little; their tests wait for times to pass"
    COMPUTING = "cores, and no service"


@dataclass(frozen=True)
class Step:
    """One target of make. shows: what a reader of the table learns from its success."""

    name: str
    command: tuple[str, ...]
    shows: str
    lane: Lane = Lane.BUSY
    missing: str = ""  # why it cannot run here; it then counts neither as passed nor as failed


@dataclass(frozen=True)
class Result:
    step: Step
    outcome: str
    seconds: float


class Passed:
    """The steps that passed at this commit, in a file. Empty while files differ from the commit."""

    def __init__(self) -> None:
        self._file, self._commit = LOGS / "passed.jsonl", commit()

    def of(self, step: Step) -> Result | None:
        """The result of an earlier run of the step at this commit, if it passed."""
        lines = self._file.read_text().splitlines() if self._file.exists() and self._commit else ()
        for line in map(json.loads, lines):
            if line["commit"] == self._commit and line["make"] == list(step.command):
                return Result(step, f"passed {line['ended']}", line["seconds"])
        return None

    def add(self, result: Result) -> None:
        if self._commit != commit() or not self._commit:  # it was edited meanwhile
            return
        line = {
            "commit": self._commit,
            "make": result.step.command,
            "ended": time.strftime("%Y-%m-%d %H:%M"),
            "seconds": round(result.seconds, 1),
        }
        with self._file.open("a") as file:
            print(json.dumps(line), file=file)


def commit() -> str:
    """The checked-out commit; empty without git, or if a file differs from it."""

    def git(*command: str) -> str | None:
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)
        return None if done.returncode else done.stdout.strip()

    return (git("rev-parse", "HEAD") or "") if git("status", "--porcelain") == "" else ""


@functools.cache  # starting Pythons takes a second
def other_pythons() -> list[str]:
    """Supported Pythons on PATH beside the one of this environment, if they start."""
    names = (f"python3.{minor}" for minor in SUPPORTED if minor != sys.version_info.minor)
    return [name for name in names if shutil.which(name) and starts(name)]


def starts(python: str) -> bool:
    return subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode == 0


def steps() -> list[Step]:
    pythons = other_pythons()
    return [
        *(
            Step(f"marked-{name}", ("test-marked-long", f"FOLDERS={' '.join(folders)}"), shows)
            for name, (folders, shows) in MARKED.items()
        ),
        Step(
            "simulate",
            ("simulate", "SEEDS=100000"),
            "100,000 simulated worlds keep the invariants",
            Lane.COMPUTING,
        ),
        Step(
            "simulate-deliveries",
            ("simulate-deliveries", "SEEDS=10000"),
            "10,000 simulated worlds of deliveries lose nothing and keep the order",
            Lane.COMPUTING,
        ),
        Step("fuzz", ("fuzz",), "random conditions and texts that no run has tried", Lane.COMPUTING),
        Step(
            "fuzz-http",
            ("fuzz-http", "FUZZ_SECONDS=600"),
            "ten minutes of hostile requests over HTTP",
            Lane.COMPUTING,
        ),
        Step("chaos", ("chaos", "SECONDS=600"), "ten minutes of faults lose, repeat and leak nothing"),
        Step("chaos-plants", ("chaos-plants",), "the oracle of chaos sees each planted fault"),
        Step("archive-kill", ("archive-kill",), "an archive job killed while events arrive has each once"),
        Step("backtest-scale", ("backtest-scale",), "a million events in 512 MB fire as in a plain loop"),
        Step(
            "sink-away",
            ("sink-away", "SECONDS=600"),
            "what fires while a sink is away reaches it later",
            Lane.IDLE,
        ),
        Step(
            "soak",
            ("soak", "SECONDS=600"),
            "100 events a second over HTTP: each that is sent is received",
            Lane.IDLE,
        ),
        Step("ha", ("ha",), "two triggerers on PostgreSQL under faults"),
        Step("airflow-oldest", ("test-airflow-oldest",), "the oldest supported Airflow"),
        Step("broker-oldest", ("test-broker-oldest",), "the oldest supported broker"),
        Step(
            "pythons",
            ("test-pythons", f"PYTHONS={' '.join(pythons)}"),
            f"unit tests on {', '.join(pythons) or 'other Pythons'}",
            Lane.COMPUTING,
            "" if pythons else "no other supported Python (3.11 to 3.14) on PATH",
        ),
    ]


def run(step: Step) -> Result:
    if step.missing:
        return Result(step, f"not run: {step.missing}", 0.0)
    log = LOGS / f"{step.name}.log"
    print(f"{time.strftime('%H:%M')} {step.name}: make {' '.join(step.command)} > {log}", flush=True)
    began = time.monotonic()
    with log.open("w") as output:
        command = [
            *(["nice", "-n", "10"] if step.lane is Lane.COMPUTING else []),
            "make",
            "ONLY=",  # that of our own make is not for the step
            *step.command,
        ]
        code = subprocess.run(
            command, cwd=ROOT, check=False, stdout=output, stderr=subprocess.STDOUT
        ).returncode
    result = Result(step, "passed" if code == 0 else f"FAILED ({code})", time.monotonic() - began)
    last = log.read_text(errors="replace").splitlines()[-LAST_LINES:] if code else []
    print("\n".join([f"{time.strftime('%H:%M')} {step.name}: {result.outcome}", *last]), flush=True)
    return result


def run_all(chosen: Sequence[Step], results: list[Result], *, resume: bool = False) -> None:
    """Runs each lane's steps in their order, and adds each result as soon as its step has ended."""
    LOGS.mkdir(parents=True, exist_ok=True)
    passed = Passed()

    def run_lane(lane: Lane) -> None:
        for step in chosen:
            if step.lane is not lane:
                continue
            result = passed.of(step) if resume else None
            if result is None:
                result = run(step)
                if result.outcome == "passed":
                    passed.add(result)
            results.append(result)

    with ThreadPoolExecutor(len(Lane)) as lanes:
        for ended in [lanes.submit(run_lane, lane) for lane in Lane]:
            ended.result()


def table(results: Sequence[Result]) -> list[str]:
    width = max((len(result.outcome) for result in results), default=0)
    return [
        f"{result.step.name:19} {result.outcome:{width}} {result.seconds / 60:7.1f} min  {result.step.shows}"
        for result in results
    ]


def main() -> int:
    known = {step.name: step for step in steps()}
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__)
    parser.add_argument("only", nargs="*", help=f"some of: {', '.join(known)}")
    parser.add_argument("--resume", action="store_true", help="leave out what passed at this commit")
    given = parser.parse_args()
    only = given.only
    if unknown := set(only) - set(known):
        parser.error(f"no such step: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    results: list[Result] = []
    try:
        chosen = [step for step in known.values() if not only or step.name in only]
        run_all(chosen, results, resume=given.resume)
    finally:
        results.sort(key=lambda result: list(known).index(result.step.name))
        print("\n== make test-long", *table(results), sep="\n", flush=True)
    return any(result.outcome.startswith("FAILED") for result in results)


if __name__ == "__main__":
    sys.exit(main())
