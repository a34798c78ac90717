"""What questions about many waits cost: for commands, a process that follows the bus, and the page."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from interlock.engine.config import BusConfig

from ..lines import Aim, progress, report
from ..sizes import number
from .crowd import KINDS, crowded_bus, name_of

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
    with tempfile.TemporaryDirectory() as home:
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap_servers}}
        environment = {
            **os.environ,
            "AIRFLOW_HOME": home,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection),
        }
        _cost(("db", "migrate"), environment)  # not counted: it makes Airflow's files too
        for kind in KINDS:
            progress(f"writing {waits} waits, {kind} conditions, {keys} of them half met")
            config = crowded_bus(bootstrap_servers, kind, waits, keys, int(time.time() * 1000))
            about = f"{waits} waits of {'one condition' if kind == 'shared' else 'conditions of their own'}"
            _commands(config, about, environment)
            _follower(config, about, waits)
            _views(config, about, waits, environment)


def _commands(config: BusConfig, about: str, environment: Mapping[str, str]) -> None:
    questions = {
        "explain": ("interlock", "explain", name_of(17), "--bus", config.name),
        "subscriptions list": ("interlock", "subscriptions", "list", "--bus", config.name),
    }
    for question, command in questions.items():
        turns = [(_cost(OWN_START, environment), _cost(command, environment)) for _ in range(TURNS)]
        for what, at, aim in (("processor time", 0, Aim("figure at most", 1.0)), ("time", 1, None)):
            beyond = [own[at] - start[at] for start, own in turns]
            ratio = statistics.median(own[at] / start[at] for start, own in turns)
            text = f"airflow interlock {question}: {what} beyond Airflow's own start, {about}"
            report(text, statistics.median(beyond), "s", ratio, aim=aim, turns=beyond)


def _cost(command: tuple[str, ...], environment: Mapping[str, str]) -> _Cost:
    """What a command of Airflow takes. Ends the bench with its last output if it fails."""
    before, began = _cpu_s(), time.perf_counter()
    done = subprocess.run([AIRFLOW, *command], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: airflow {' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return _Cost(_cpu_s() - before, time.perf_counter() - began)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _measured(module: str, config: BusConfig, waits: int, environment: Mapping[str, str]) -> dict[str, Any]:
    """What a module of the bench measures in a process of its own."""
    settings = json.dumps({"name": config.name, "client": dict(config.client)})
    command = [sys.executable, "-m", f"bench.following.{module}", settings, str(waits)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"bench: {module} of bus {config.name!r} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _views(config: BusConfig, about: str, waits: int, environment: Mapping[str, str]) -> None:
    found = _measured("views", config, waits, environment)
    for view, took in found["views"].items():
        for share, most in (("p50", 0.3), ("p95", 1.0)):
            aim = Aim("figure at most", most)
            report(f"GET {view}, nothing kept, {share}, {about}", took[f"{share}_s"], "s", aim=aim)
        report(f"GET {view}, nothing kept, processor time, {about}", took["cpu_s"], "s")
    alone = found["neighbour_ms"].pop("alone")
    for when, value in found["neighbour_ms"].items():
        text = f"a neighbour's route beside the page, p99, {when}, {about}"
        report(text, value, "ms", value / alone, aim=Aim("ratio at most", 1.5))


def _follower(config: BusConfig, about: str, waits: int) -> None:
    found = _measured("follower", config, waits, os.environ)
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
