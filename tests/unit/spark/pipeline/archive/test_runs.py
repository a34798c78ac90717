"""Runs over an archive: the latest goes on, and those before it end."""

from __future__ import annotations

import pytest
from interlock.spark.pipeline import PipelineError
from interlock.spark.pipeline.archive.runs import begin

from .conftest import LocalFiles


def test_a_later_run_ends_the_one_before_it(files: LocalFiles) -> None:
    first = begin(files, "_runs")
    first.check()
    second = begin(files, "_runs")
    second.check()
    with pytest.raises(PipelineError, match=r'another run .*"pid".*Run one at a time'):
        first.check()


def test_of_two_that_began_in_one_moment_one_goes_on(files: LocalFiles) -> None:
    first = begin(files, "_runs")
    files.write(f"_runs/{first.name[:-8]}ffffffff", "{}")
    files.write(f"_runs/{first.name[:-8]}00000000", "{}")
    with pytest.raises(PipelineError, match="another run"):
        first.check()
    files.remove(f"_runs/{first.name[:-8]}ffffffff")
    first.check()


def test_runs_of_compactions_do_not_end_those_that_archive(files: LocalFiles) -> None:
    archiving = begin(files, "_runs")
    begin(files, "_compactions")
    archiving.check()


def test_the_files_of_runs_of_long_ago_go(files: LocalFiles) -> None:
    names = [begin(files, "_runs").name for _ in range(40)]
    assert names == sorted(names)
    assert set(files.files("_runs")) == set(names[-21:])
