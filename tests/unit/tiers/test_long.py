"""`make test-long` runs each step, continues after a failure and says at the end what ran."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import pytest

from tests import long

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """Targets that fail instead of being made; the others succeed."""
    targets: list[str] = []

    def make(command: list[str], *, stdout: TextIO | None = None, **_: Any) -> SimpleNamespace:
        if "make" not in command:  # a Python is started
            return SimpleNamespace(returncode=127)
        # A target that takes an ONLY of its own must not get that of `make test-long ONLY=...`.
        target = command[command.index("ONLY=") + 1]
        print(f"what {target} prints", file=stdout)
        return SimpleNamespace(returncode=2 if target in targets else 0)

    monkeypatch.setattr(long, "subprocess", SimpleNamespace(run=make, STDOUT=None))
    monkeypatch.setattr(long, "LOGS", tmp_path / "long")
    monkeypatch.setattr(long, "commit", lambda: "c1")
    long.other_pythons.cache_clear()  # found before, when Pythons did start
    yield targets
    long.other_pythons.cache_clear()


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tests.long", *arguments])
    return long.main()


def test_a_failure_is_in_the_table_and_the_steps_after_it_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failing: list[str]
) -> None:
    failing.append("simulate")
    assert run(monkeypatch) == 1
    progress, _, text = capsys.readouterr().out.rpartition("== make test-long\n")
    assert "what simulate prints" in progress
    assert "what fuzz prints" not in progress
    table = text.splitlines()
    assert [line.split()[0] for line in table] == [step.name for step in long.steps()]
    assert [line.split()[0] for line in table if "FAILED (2)" in line] == ["simulate"]


def test_some_steps_can_be_chosen_and_other_names_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failing: list[str]
) -> None:
    assert run(monkeypatch, "ha", "chaos") == 0
    table = capsys.readouterr().out.rpartition("== make test-long\n")[2].splitlines()
    assert [line.split()[:2] for line in table] == [["chaos", "passed"], ["ha", "passed"]]
    with pytest.raises(SystemExit):
        run(monkeypatch, "everything")


def ran(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The steps that were made, by what they printed on the way; the table has the others too."""
    progress, _, table = capsys.readouterr().out.rpartition("== make test-long\n")
    assert [line.split()[0] for line in table.splitlines()] == ["fuzz", "chaos", "ha"]
    return sorted(line.split()[1].rstrip(":") for line in progress.splitlines() if ": make " in line)


def test_a_run_that_is_continued_leaves_out_what_passed_at_the_same_commit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failing: list[str]
) -> None:
    failing.append("ha")
    steps = ("fuzz", "chaos", "ha")
    assert run(monkeypatch, *steps, "--resume") == 1
    assert ran(capsys) == ["chaos", "fuzz", "ha"]
    failing.clear()
    assert run(monkeypatch, *steps, "--resume") == 0
    assert ran(capsys) == ["ha"]
    assert run(monkeypatch, *steps) == 0  # a run that is not continued makes all
    assert ran(capsys) == ["chaos", "fuzz", "ha"]
    monkeypatch.setattr(long, "commit", lambda: "c2")
    assert run(monkeypatch, *steps, "--resume") == 0
    assert ran(capsys) == ["chaos", "fuzz", "ha"]


def test_what_passed_while_files_differed_from_the_commit_is_run_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failing: list[str]
) -> None:
    monkeypatch.setattr(long, "commit", lambda: "")
    for _ in range(2):
        assert run(monkeypatch, "fuzz", "chaos", "ha", "--resume") == 0
        assert ran(capsys) == ["chaos", "fuzz", "ha"]


def test_the_table_says_when_no_other_python_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failing: list[str]
) -> None:
    monkeypatch.setattr(long.shutil, "which", lambda name: f"/shims/{name}")  # which do not start
    assert run(monkeypatch, "pythons") == 0
    assert "not run: no other supported Python (3.11 to 3.14) on PATH" in capsys.readouterr().out


def test_each_file_with_tests_marked_long_belongs_to_one_step() -> None:
    folders = [folder for folders, _ in long.MARKED.values() for folder in folders]
    for file in (ROOT / "tests").rglob("test_*.py"):
        if "pytest.mark.long" in file.read_text():
            path = file.relative_to(ROOT)
            assert [folder for folder in folders if path.is_relative_to(folder)] != [], path
    assert len(set(folders)) == len(folders)


@pytest.mark.usefixtures("failing")  # else each process that collects tests would start Pythons
def test_each_step_is_a_target_of_make() -> None:
    text = "".join(path.read_text() for path in (ROOT / "Makefile", *(ROOT / "make").glob("*.mk")))
    targets = [step.command[0] for step in long.steps()]
    assert [name for name in targets if f"\n{name}:" not in text and f" {name}:" not in text] == []
