"""A triggerer that hangs in `make ha` stands still with all its processes, and goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.ha.installation import PostgresAirflow

PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"


@pytest.fixture
def airflow(tmp_path: Path) -> Iterator[PostgresAirflow]:
    """Two triggerers that are none."""
    airflow = PostgresAirflow(tmp_path, tmp_path, url="none")
    for name in ("triggerer-1", "triggerer-2"):
        airflow.processes.start(name, [sys.executable, "-c", PARENT])
        airflow._triggerers.append(name)
    yield airflow
    airflow.stop()


def test_the_youngest_triggerer_stands_still_with_its_descendants_and_goes_on(
    airflow: PostgresAirflow, eventually: Callable[..., Any]
) -> None:
    oldest, youngest = map(psutil.Process, airflow.triggerer_pids())
    [child] = eventually("a child", youngest.children)
    # Until then a stop of the child would keep its parent inside vfork, which cannot be stopped.
    eventually("a program of its own", lambda: child.cmdline() != youngest.cmdline())
    airflow.hang_triggerer()
    eventually("both stopped", lambda: {youngest.status(), child.status()} == {psutil.STATUS_STOPPED})
    assert oldest.status() != psutil.STATUS_STOPPED
    airflow.processes.check()  # one that hangs has not ended
    airflow.continue_triggerer()
    eventually("both go on", lambda: psutil.STATUS_STOPPED not in {youngest.status(), child.status()})
