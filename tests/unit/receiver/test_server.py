from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PARENT = """
import multiprocessing, signal
from interlock.receiver.server import end_with_parent

def work():
    end_with_parent()
    print("works", flush=True)
    signal.pause()

if __name__ == "__main__":
    multiprocessing.get_context("spawn").Process(target=work).start()
    signal.pause()
"""


def test_a_worker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "works\n"
        parent.kill()
        parent.communicate(timeout=30)  # returns when the worker too has closed its output
