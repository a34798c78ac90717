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


@pytest.fixture(scope="session", autouse=True)
def _own_airflow_home() -> Iterator[None]:
    yield
    shutil.rmtree(_AIRFLOW_HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def unique_name() -> Callable[[str], str]:
    """Gives names for topics, groups and buses: `unique_name("orders")` is another one each time."""
    return lambda prefix: f"{prefix}-{uuid.uuid4().hex[:10]}"
