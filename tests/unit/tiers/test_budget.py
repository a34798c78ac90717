"""Seconds are added up by folder, and a folder that takes more than its budget is named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.budget import BUDGET_FILE, Budget, read_budget

TESTS = BUDGET_FILE.parent


def taken(budget: Budget, nodeid: str, seconds: float) -> None:
    report: Any = SimpleNamespace(nodeid=nodeid, duration=seconds)
    budget.pytest_runtest_logreport(report)


def test_seconds_count_for_the_longest_folder_that_has_a_budget() -> None:
    budget = Budget({"unit": 1, "unit/engine": 1})
    taken(budget, "unit/engine/kafka/test_a.py::test_b[x::y]@unit/engine/kafka/test_a.py", 0.5)
    taken(budget, "unit/engines/test_a.py::test_b", 0.25)
    taken(budget, "contract/test_a.py::test_b", 2.0)
    assert budget.taken == {"unit/engine": 0.5, "unit": 0.25, "contract": 2.0}
    assert budget.over() == []


def test_a_folder_over_its_budget_is_a_loud_warning() -> None:
    budget = Budget({"unit": 1, "contract": 5})
    taken(budget, "unit/test_a.py::test_b", 1.5)
    assert budget.over() == [("unit", 1.5, 1)]
    lines: list[tuple[str, dict[str, bool]]] = []
    reporter: Any = SimpleNamespace(
        section=lambda title: None, write_line=lambda line, **markup: lines.append((line, markup))
    )
    budget.pytest_terminal_summary(reporter)
    line, markup = lines[-1]
    assert line == "WARNING: OVER BUDGET: tests/unit took 2 s; its budget is 1 s"
    assert markup == {"yellow": True, "bold": True}


@pytest.mark.parametrize("tier", ["test", "long"])
def test_each_folder_of_the_budget_exists(tier: str) -> None:
    assert [folder for folder in read_budget(tier) if not (TESTS / folder).is_dir()] == []


def test_each_test_file_lies_in_a_folder_with_a_budget() -> None:
    budget = Budget(read_budget("test"))
    files = [path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")]
    assert len(files) > 100
    assert {budget.folder_of(file) for file in files} <= set(read_budget("test"))
