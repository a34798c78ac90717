"""Fixtures for pytest: `pytest_plugins = ["interlock.testing.fixtures"]` in the topmost conftest.py.

`interlock_dags`: the DAGs of the folder in the setting `interlock_dags_folder` (default: dags).
`interlock_wait`: `wait_of`, with the DAG's id instead of the DAG.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from ..events.attributes import shown
from .dags import dags_in

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from .wait import WaitingTask

_SETTING = "interlock_dags_folder"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(_SETTING, "folder with the DAG files, relative to pytest's root folder", default="dags")


@pytest.fixture(scope="session")
def interlock_dags(pytestconfig: pytest.Config) -> dict[str, DAG]:
    """{dag_id: DAG} of the DAGs folder, read once a session; an import error fails the test."""
    folder = pytestconfig.rootpath / pytestconfig.getini(_SETTING)
    if not folder.is_dir():
        pytest.fail(f"{folder} is not a folder: set {_SETTING} in pytest's configuration", pytrace=False)
    return dags_in(folder)


@pytest.fixture
def interlock_wait(interlock_dags: dict[str, DAG]) -> Callable[..., WaitingTask]:
    """`interlock_wait("dag_id", "task_id", logical_date=...)`: arguments and errors as `wait_of`."""
    from .wait import wait_of

    def wait(dag_id: str, task_id: str, **arguments: Any) -> WaitingTask:
        if not isinstance(dag_id, str) or dag_id not in interlock_dags:
            pytest.fail(
                f"No DAG {shown(dag_id)}; there are {', '.join(sorted(interlock_dags))}", pytrace=False
            )
        return wait_of(interlock_dags[dag_id], task_id, **arguments)

    return wait
