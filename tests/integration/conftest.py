"""Integration tests: with the real broker of the session (tests/conftest.py)."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import pytest

from demo.airflow import LocalAirflow

TAIL = 40  # lines: a traceback of the scheduler is as long

# It logs the end of its connections after pytest has closed its log.
logging.getLogger("py4j").setLevel(logging.WARNING)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Generator[None, Any, Any]:
    """What fails shows how the logs of its Airflow end: a component may have said why, or have ended."""
    report = yield
    if report.failed:
        report.sections += airflow_logs(getattr(item, "funcargs", {}).values())
    return report


def airflow_logs(fixtures: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """(title, last lines) of each component of every Airflow that is a fixture, or one's `airflow`."""
    found = {id(each): each for value in fixtures for each in (value, getattr(value, "airflow", None))}
    for airflow in found.values():
        if isinstance(airflow, LocalAirflow):
            for name, tail in airflow.processes.tails(TAIL).items():
                yield f"end of the log of Airflow's {name}", tail
