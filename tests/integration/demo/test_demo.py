"""The demo as a user runs it, on a broker, an Airflow and a Spark of its own: `make demo` calls just this."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from demo.processes import MARKER

ROOT = Path(__file__).resolve().parents[3]


def environment(folder: Path, fault: str = "") -> dict[str, str]:
    return {**os.environ, "DEMO_DIR": str(folder), "FAULT": fault, "KEEP": ""}


def run_demo(folder: Path, fault: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "demo"],
        cwd=ROOT,
        env=environment(folder, fault),
        capture_output=True,
        text=True,
        timeout=420,
    )


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


def test_both_reports_run_once_also_when_every_orders_event_comes_twice(tmp_path: Path) -> None:
    folder = tmp_path / "a demo"
    done = run_demo(folder, "duplicate-orders")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["reports"], result["duplicates"], result["missing"]) == (2, 0, 0)
    assert len(result["resume_ms"]) == 2
    assert done.stdout.count("the same orders event is sent again") == 2
    password = json.loads((folder / "airflow" / "passwords.json").read_text())["admin"]
    assert password not in done.stdout + done.stderr
    for name in ("airflow.cfg", "passwords.json"):
        assert (folder / "airflow" / name).stat().st_mode & 0o077 == 0
    assert left_running(folder) == []


def test_lost_and_misdated_rates_end_the_demo_with_the_reason(tmp_path: Path) -> None:
    done = run_demo(tmp_path / "demo", "drop-rates,wrong-date")
    assert done.returncode == 1, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    one_of_two = {"reports": 1, "duplicates": 0, "missing": 1}
    assert result["stories"] == {"drop-rates": one_of_two, "wrong-date": one_of_two}
    reasons = [line for line in done.stderr.splitlines() if "no rates event in the topic" in line]
    assert len(reasons) == 2
    assert [" instead" in reason for reason in reasons] == [False, True]
    assert left_running(tmp_path / "demo") == []


def test_ctrl_c_stops_all_that_was_started(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with subprocess.Popen(
        [sys.executable, "-m", "demo"],
        cwd=ROOT,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "starting Airflow" in line:
                break
        assert left_running(folder) != []
        demo.send_signal(signal.SIGINT)
        rest = demo.stdout.read()
        assert demo.wait(60) == 130, rest
    deadline = time.monotonic() + 10
    while (left := left_running(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []


def test_an_occupied_port_is_one_sentence(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        env = {**environment(tmp_path / "demo"), "DEMO_PORT": str(port)}
        done = subprocess.run(
            [sys.executable, "-m", "demo"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120
        )
    assert done.returncode == 1
    assert done.stderr.strip() == f"demo: port {port} of 127.0.0.1 is in use; free it or choose another one"


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("FAULT", "rain", "no FAULT=rain; there are drop-rates, wrong-date, duplicate-orders"),
        ("JAVA_HOME", "/nowhere", "JAVA_HOME is '/nowhere' and has no bin/java"),
    ],
)
def test_what_is_missing_is_one_sentence(tmp_path: Path, variable: str, value: str, sentence: str) -> None:
    env = {**environment(tmp_path / "demo"), variable: value}
    done = subprocess.run(
        [sys.executable, "-m", "demo"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert sentence in line
