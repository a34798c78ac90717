"""The demo as a user runs it, with its own broker, Airflow and Spark.

Each start takes half a minute, so `make test` starts one demo with one story of three dates for all faults:
repeated events, lost rates and misdated rates. The long tier runs two stories side by side, one without a
fault, and ends a demo otherwise.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from local.processes import MARKER
from local.rest import AirflowRest

ROOT = Path(__file__).resolve().parents[3]


COMMAND = [sys.executable, "-m", "demo"]


def environment(folder: Path, fault: str = "", keep: str = "") -> dict[str, str]:
    # a `make` that runs these tests passes its own options on
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return {**own, "DEMO_DIR": str(folder), "FAULT": fault, "KEEP": keep}


class Running:
    """A demo in its own session, as in a terminal: Ctrl-C reaches all of its processes."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # Tests in the background of a shell ignore it, and their children would inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def read_until(self, text: str) -> str:
        """The first line with this text in it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if text in line:
                return line
        pytest.fail(f"the demo ended without {text!r}:\n{''.join(self.lines)}")

    def ctrl_c(self) -> int:
        """The demo's or make's exit status after it."""
        assert self.process.stdout is not None
        os.killpg(self.process.pid, signal.SIGINT)
        self.lines += self.process.stdout.readlines()
        return self.process.wait(60)


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    """Starts demos; one that a failed test left running gets a Ctrl-C."""
    with ExitStack() as stack:

        def started(command: list[str], env: dict[str, str]) -> Running:
            demo = Running(command, env)
            stack.callback(lambda: demo.process.poll() is None and demo.ctrl_c())
            assert demo.process.stdout is not None
            stack.callback(demo.process.stdout.close)
            return demo

        yield started


def left_running(folder: Path) -> list[str]:
    """Command lines of processes that belong to the demo in `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            here = str(folder) in " ".join(process.cmdline())
            if here or (MARKER in (env := process.environ()) and env.get("DEMO_DIR") == str(folder)):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def assert_private(folder: Path) -> None:
    for name in ("airflow.cfg", "passwords.json"):
        assert (folder / "airflow" / name).stat().st_mode & 0o077 == 0


def spark_jvms(folder: Path) -> list[str]:
    return [line for line in left_running(folder) if "org.apache.spark.deploy.SparkSubmit" in line]


@pytest.mark.long
def test_make_demo_counts_two_reports_even_when_every_orders_event_comes_twice(tmp_path: Path) -> None:
    folder = tmp_path / "a demo"
    done = subprocess.run(
        ["make", "demo"],
        cwd=ROOT,
        env=environment(folder, ",duplicate-orders"),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    two = {"reports": 2, "duplicates": 0, "missing": 0}
    assert result["stories"] == {"none": two, "duplicate-orders": two}
    assert (result["reports"], result["duplicates"], result["missing"]) == (4, 0, 0)
    assert result["announced"] == 4
    assert len(result["resume_ms"]) == 4
    assert done.stdout.count("sent the same orders event again") == 2
    password = json.loads((folder / "airflow" / "passwords.json").read_text())["admin"]
    assert password not in done.stdout + done.stderr
    assert_private(folder)
    assert left_running(folder) == []


def test_lost_and_misdated_rates_fail_the_demo_with_the_reason_and_keep_leaves_it_running_until_ctrl_c(
    tmp_path: Path, start: Callable[..., Running]
) -> None:
    folder = tmp_path / "a demo"
    faults = "duplicate-orders+drop-rates+wrong-date"
    demo = start(COMMAND, environment(folder, faults, keep="1"))
    url = demo.read_until("Everything keeps running.").split()[-1]
    login = re.search(r"login: (\S+)  password: (\S+)", demo.read_until("login: "))
    assert login is not None
    api = AirflowRest(url, *login.groups())
    waits = [
        api.task("daily_report", run["dag_run_id"], "ready")["state"] for run in api.runs("daily_report")
    ]
    api.close()
    assert sorted(waits) == ["deferred", "deferred", "success"]
    assert demo.ctrl_c() == 1, demo.lines
    assert left_running(folder) == []
    assert_private(folder)
    [summary] = [line for line in demo.lines if line.startswith("{")]
    result = json.loads(summary)
    assert (result["reports"], result["duplicates"], result["missing"]) == (1, 0, 2)
    assert len(result["resume_ms"]) == 1
    assert result["announced"] == 1
    assert sum("sent the same orders event again" in line for line in demo.lines) == 3
    reasons = [line for line in demo.lines if "no rates event in the topic" in line]
    assert sorted(" instead" in reason for reason in reasons) == [False, True]


@pytest.mark.long
def test_ctrl_c_while_spark_runs_stops_all_that_make_demo_started(
    tmp_path: Path, start: Callable[..., Running], eventually: Any
) -> None:
    folder = tmp_path / "demo"
    demo = start(["make", "demo"], environment(folder))
    demo.read_until("orders_spark started")
    eventually("a Spark job runs", lambda: spark_jvms(folder))
    demo.ctrl_c()
    assert demo.process.returncode != 0
    assert any("stopped by Ctrl-C; nothing is left running" in line for line in demo.lines), demo.lines
    assert left_running(folder) == []


def test_an_occupied_port_ends_the_demo_with_one_sentence(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        env = {**environment(tmp_path / "demo"), "DEMO_PORT": str(port)}
        done = subprocess.run(COMMAND, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.strip() == f"demo: port {port} of 127.0.0.1 is in use; free it or choose another one"


def test_make_demo_passes_its_variables_on_and_fails_with_the_demo(tmp_path: Path) -> None:
    env = environment(tmp_path / "demo", "rain")
    done = subprocess.run(["make", "demo"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "unknown FAULT=rain; choose among drop-rates, wrong-date, duplicate-orders" in done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("FAULT", "drop-rates+rain", "unknown FAULT=rain; choose among drop-rates, wrong-date, duplicate-or"),
        ("JAVA_HOME", "/nowhere", "JAVA_HOME is '/nowhere' and has no bin/java"),
    ],
)
def test_a_wrong_variable_ends_the_demo_with_one_sentence(
    tmp_path: Path, variable: str, value: str, sentence: str
) -> None:
    env = {**environment(tmp_path / "demo"), variable: value}
    done = subprocess.run(COMMAND, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert sentence in line
