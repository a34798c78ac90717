"""Triggerers of `make ha`: each has its name, by which it is stopped and killed with all its processes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from local.processes import ServiceError
from tests.ha.installation import PostgresAirflow

PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"


@pytest.fixture
def airflow(tmp_path: Path) -> Iterator[PostgresAirflow]:
    """Two fake triggerers."""
    airflow = PostgresAirflow(tmp_path, tmp_path, url="none")
    for name in ("triggerer-1", "triggerer-2"):
        airflow.processes.start(name, [sys.executable, "-c", PARENT])
        airflow._triggerers.append(name)
    yield airflow
    airflow.stop()


def test_a_triggerer_is_stopped_with_its_descendants_and_continues(
    airflow: PostgresAirflow, eventually: Callable[..., Any]
) -> None:
    struck, other = map(psutil.Process, airflow.triggerer_pids())
    [child] = eventually("a child", struck.children)
    # Until then a stop of the child would keep its parent inside vfork, which cannot be stopped.
    eventually("a program of its own", lambda: child.cmdline() != struck.cmdline())
    airflow.hang_triggerer("triggerer-1")
    eventually("both stopped", lambda: {struck.status(), child.status()} == {psutil.STATUS_STOPPED})
    assert other.status() != psutil.STATUS_STOPPED
    airflow.processes.check()  # a stopped one has not ended
    airflow.continue_triggerer()
    eventually("both go on", lambda: psutil.STATUS_STOPPED not in {struck.status(), child.status()})


@pytest.mark.parametrize(
    ("killed", "left"),
    [(None, "triggerer-2"), ("triggerer-1", "triggerer-2"), ("triggerer-2", "triggerer-1")],
)
def test_the_named_triggerer_is_killed_and_by_default_the_oldest(
    airflow: PostgresAirflow, killed: str | None, left: str
) -> None:
    airflow.kill_triggerer(killed)
    assert airflow.triggerers == [left]
    [pid] = airflow.triggerer_pids()
    assert psutil.pid_exists(pid)
    airflow.processes.check()


def test_each_job_has_the_name_of_its_triggerer(
    airflow: PostgresAirflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [{"id": 4}]
    monkeypatch.setattr(airflow.api, "jobs", lambda _: jobs)
    airflow.name_jobs()
    airflow._triggerers.append("triggerer-3")
    with pytest.raises(ServiceError, match="starting triggerer-3 created 0 jobs"):
        airflow.name_jobs()
    jobs.append({"id": 9})
    airflow.name_jobs()
    assert [airflow.name_of(job) for job in (4, 9)] == ["triggerer-2", "triggerer-3"]
