"""Where the files of the jobs are."""

from __future__ import annotations

import subprocess
import sys

import pytest
from interlock.spark.pipeline import JOBS, PipelineError, job


@pytest.mark.parametrize("path", sorted(JOBS.glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_each_job_has_a_name_and_is_found_by_it(path: object) -> None:
    name = str(path).rpartition("/")[2].removesuffix(".py").replace("_", "-")
    assert job(name) == str(path)


@pytest.mark.parametrize("name", ["", "nothing", "../archive", "__init__"])
def test_an_unknown_name_is_an_error_that_lists_the_jobs(name: str) -> None:
    with pytest.raises(PipelineError, match="no job"):
        job(name)


def test_the_command_prints_the_path_and_nothing_else() -> None:
    command = [sys.executable, "-m", "interlock.spark.pipeline"]
    found = subprocess.run([*command, "archive"], capture_output=True, text=True, check=True)
    assert found.stdout == f"{job('archive')}\n"
    wrong = subprocess.run([*command, "nothing"], capture_output=True, text=True)
    assert wrong.returncode == 1
    assert "no job 'nothing'" in wrong.stderr
