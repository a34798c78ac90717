"""`airflow interlock engine`: threads that hang."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import threading
from argparse import Namespace
from interlock.engine.runtime import runtime, watchdog
from interlock.engine.config import BusConfig
from interlock.plugin.commands import console, engine

def hangs(*_, **__):
    threading.Event().wait()

watchdog.LOOK_S, watchdog.START_S = 0.01, 0.05
runtime.run_engine = hangs
console.bus_of = lambda args: BusConfig(client={"bootstrap.servers": "127.0.0.1:1"})
engine.run(Namespace(probe_port=None, probe_host=None))
"""


def test_the_engine_command_exits_with_1_and_the_reason_when_its_third_thread_hangs() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    [line] = [each for each in done.stderr.splitlines() if each.startswith("airflow interlock engine: ")]
    assert "2 earlier threads still hang: the process ends. Start it again." in line
    assert "in hangs" in done.stderr  # the place in the stack
    assert done.stdout.count("is replaced; it starts again") >= 2
