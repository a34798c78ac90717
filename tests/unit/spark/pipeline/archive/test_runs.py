"""Runs over an archive: the latest continues, earlier ones end."""

from __future__ import annotations

import json
import os

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


def test_one_of_two_runs_that_began_at_once_continues(files: LocalFiles) -> None:
    first = begin(files, "_runs")
    files.write(f"_runs/{first.name[:-8]}ffffffff", "{}")
    files.write(f"_runs/{first.name[:-8]}00000000", "{}")
    with pytest.raises(PipelineError, match="another run"):
        first.check()
    files.remove(f"_runs/{first.name[:-8]}ffffffff")
    first.check()


def test_runs_of_compactions_do_not_end_archive_runs(files: LocalFiles) -> None:
    archiving = begin(files, "_runs")
    begin(files, "_compactions")
    archiving.check()


def test_files_of_old_runs_are_removed(files: LocalFiles) -> None:
    names = [begin(files, "_runs").name for _ in range(40)]
    assert names == sorted(names)
    assert set(files.files("_runs")) == set(names[-21:])


def test_hidden_files_in_the_folder_of_runs_are_ignored_and_stay(files: LocalFiles) -> None:
    for name in (".DS_Store", "_SUCCESS"):
        files.write(f"_runs/{name}", "")
    first = begin(files, "_runs")
    first.check()
    names = [begin(files, "_runs").name for _ in range(30)]
    assert set(files.files("_runs")) == {".DS_Store", "_SUCCESS", *names[-21:]}


@pytest.mark.parametrize("stray", ["copy of {}", "{} copy", "notes.txt"])
def test_another_file_in_the_folder_of_runs_is_named_and_does_not_end_a_run(
    files: LocalFiles, stray: str
) -> None:
    run = begin(files, "_runs")
    name = stray.format(run.name)
    files.write(f"_runs/{name}", "{}")
    run.check()
    with pytest.raises(PipelineError, match=rf"/_runs records .*'{name}' in it is not a run's file: move it"):
        begin(files, "_runs")
    files.remove(f"_runs/{name}")
    assert begin(files, "_runs").name > run.name


def test_a_process_without_a_user_name_begins_runs(
    files: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many containers run with a user id that has no entry in /etc/passwd."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 5)
    run = begin(files, "_runs")
    assert json.loads(files.read(f"_runs/{run.name}") or "")["user"] == "unknown"
