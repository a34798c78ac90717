"""What questions about many waits cost: for commands, and for a process that follows the bus."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from interlock.engine.config import BusConfig

from ..lines import Aim, progress, report
from ..sizes import number
from .crowd import KINDS, Kind, crowded_bus, name_of

TURNS: Final = 3
AIRFLOW: Final = Path(sys.executable).parent / "airflow"
# A command of Airflow's own that reads a connection too.
OWN_START: Final = ("connections", "get", "kafka_default")


class _Cost(NamedTuple):
    cpu_s: float
    wall_s: float


def run(bootstrap_servers: str) -> None:
    """SUBSCRIPTIONS: how many waits. KEYS: how many of them are half met."""
    waits, keys = number("SUBSCRIPTIONS", 100_000), number("KEYS", 50_000)
    for kind in KINDS:
        progress(f"writing {waits} waits, {kind} conditions, {keys} of them half met")
        config = crowded_bus(bootstrap_servers, kind, waits, keys, int(time.time() * 1000))
        about = f"{waits} waits of {'one condition' if kind == 'shared' else 'conditions of their own'}"
        _commands(config, about)
        _follower(config, kind, about, waits)


def _commands(config: BusConfig, about: str) -> None:
    questions = {
        "explain": ("interlock", "explain", name_of(17), "--bus", config.name),
        "subscriptions list": ("interlock", "subscriptions", "list", "--bus", config.name),
    }
    with tempfile.TemporaryDirectory() as home:
        connection = {"conn_type": "kafka", "extra": dict(config.client)}
        environment = {
            **os.environ,
            "AIRFLOW_HOME": home,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection),
        }
        _cost(OWN_START, environment)  # not counted: it makes Airflow's files
        for question, command in questions.items():
            turns = [(_cost(OWN_START, environment), _cost(command, environment)) for _ in range(TURNS)]
            for what, at, aim in (("processor time", 0, Aim("figure at most", 1.0)), ("time", 1, None)):
                beyond = [own[at] - start[at] for start, own in turns]
                ratio = statistics.median(own[at] / start[at] for start, own in turns)
                text = f"airflow interlock {question}: {what} beyond Airflow's own start, {about}"
                report(text, statistics.median(beyond), "s", ratio, aim=aim, turns=beyond)


def _cost(command: tuple[str, ...], environment: dict[str, str]) -> _Cost:
    """What a command of Airflow takes. Ends the bench with its last output if it fails."""
    before, began = _cpu_s(), time.perf_counter()
    done = subprocess.run([AIRFLOW, *command], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: airflow {' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return _Cost(_cpu_s() - before, time.perf_counter() - began)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _follower(config: BusConfig, kind: Kind, about: str, waits: int) -> None:
    settings = json.dumps({"name": config.name, "client": dict(config.client)})
    command = [sys.executable, "-m", "bench.following.follower", settings, str(waits)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: the follower of {kind} conditions failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    report(f"a follower reads {about}: processor time", found["cpu_s"], "s")
    report(f"a follower reads {about}: until it answers", found["ready_s"], "s")
    most = Aim("figure at most", 3072)
    report(f"memory of a follower, {about}", found["bytes"], "bytes/wait", aim=most)
    for share in ("p50", "p99"):
        bare, beside = found["delays_alone_ms"][share], found["delays_ms"][share]
        report(
            f"delay of an event loop beside it while it reads, {share}, {about}", beside, "ms", beside / bare
        )
    for question, took in found["questions_ms"].items():
        for share, value in took.items():
            report(f"{question}, {share}, {about}", value, "ms")
