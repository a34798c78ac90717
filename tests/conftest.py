"""What all tests share: an Airflow home of their own, and names that no other test uses."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator

import pytest

# Before anything imports Airflow, which reads its home once, at import: tests neither see nor change
# the home of whoever runs them.
_AIRFLOW_HOME = tempfile.mkdtemp(prefix="interlock-tests-airflow-")
os.environ["AIRFLOW_HOME"] = _AIRFLOW_HOME
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "False"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Nothing is skipped silently: a run with a skipped test fails."""
    if _skipped(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if skipped := _skipped(config):
        terminalreporter.write_line(
            f"FAILED: {skipped} skipped; a test that cannot run here must fail and say what it lacks",
            red=True,
        )


def _skipped(config: pytest.Config) -> int:
    reporter = config.pluginmanager.getplugin("terminalreporter")
    return len(reporter.stats.get("skipped", ()))


@pytest.fixture(scope="session", autouse=True)
def _own_airflow_home() -> Iterator[None]:
    yield
    shutil.rmtree(_AIRFLOW_HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def unique_name() -> Callable[[str], str]:
    """Gives names for topics, groups and buses: `unique_name("orders")` is another one each time."""
    return lambda prefix: f"{prefix}-{uuid.uuid4().hex[:10]}"
