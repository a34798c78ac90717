"""Integration tests: with the real broker of the session (tests/conftest.py), and a Spark session."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from local.airflow import LocalAirflow
from tests.kit.sessions import INTERPRETED, SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TAIL = 40  # lines: as long as a traceback of the scheduler

# py4j logs the end of its connections after pytest has closed its log.
logging.getLogger("py4j").setLevel(logging.WARNING)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Generator[None, Any, Any]:
    """Adds the last lines of its Airflow's logs to a failure: a component may have logged the reason."""
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


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """A session in this process, with the Kafka connector; a test resets what it sets.

    A process starts one JVM, with the jars that it names then: so all tests share it.
    """
    from pyspark import util
    from pyspark.sql import SparkSession

    connect = util.local_connect_and_auth

    def closed_with_its_file(*arguments: Any) -> tuple[Any, Any]:
        """PySpark leaves the socket of a result to the garbage collector, which fails a later test for it."""
        file, socket = connect(*arguments)
        socket.close()  # once the file is closed
        return file, socket

    util.local_connect_and_auth = closed_with_its_file
    python = os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("integration tests")
    settings = SETTINGS if pytestconfig.option.markexpr == "long" else SETTINGS | INTERPRETED
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    util.local_connect_and_auth = connect
    if python is None:
        del os.environ["PYSPARK_PYTHON"]
    else:
        os.environ["PYSPARK_PYTHON"] = python
