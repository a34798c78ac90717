"""What can be read of a local service's processes when something went wrong."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from local.airflow import LocalAirflow
from local.processes import Processes
from tests.integration.conftest import pytest_runtest_makereport


def test_tails_are_the_last_lines_of_each_log_by_name(tmp_path: Path) -> None:
    processes = Processes(tmp_path, {})
    assert processes.tails() == {}
    processes.log_path("scheduler").write_text("one\ntwo\nthree\n")
    processes.log_path("api-server").write_text("")
    assert processes.tails(2) == {"scheduler": "two\nthree"}


@pytest.mark.parametrize("failed", [True, False])
def test_only_the_report_of_a_failure_has_the_ends_of_airflows_logs(tmp_path: Path, failed: bool) -> None:
    airflow = LocalAirflow(tmp_path / "home", tmp_path)
    airflow.processes.log_folder.mkdir(parents=True)
    airflow.processes.log_path("scheduler").write_text("ObjectDeletedError\n")
    item = SimpleNamespace(funcargs={"site": SimpleNamespace(airflow=airflow), "own": airflow, "other": 1})
    hook = pytest_runtest_makereport(item, None)
    next(hook)
    with pytest.raises(StopIteration) as returned:
        hook.send(SimpleNamespace(failed=failed, sections=[("before", "")]))
    added = [("end of the log of Airflow's scheduler", "ObjectDeletedError")] if failed else []
    assert returned.value.value.sections == [("before", ""), *added]
    airflow.api.close()
