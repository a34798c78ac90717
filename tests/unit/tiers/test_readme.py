"""tests/README.md names each planted fault with the seed that shows it, and the budget of each folder."""

from __future__ import annotations

import ast
import re

import pytest

from tests.chaos.plants import SEEN_AS
from tests.kit.budget import BUDGET_FILE, read_budget
from tests.long import steps

TESTS = BUDGET_FILE.parent
README = (TESTS / "README.md").read_text()


def kept_seeds() -> dict[str, int]:
    """{test: seed} of the planted faults of the simulation; tests that plant nothing are left out."""
    seeds = {}
    for path in (TESTS / "simulation").glob("test_planted_faults*.py"):
        for test in ast.parse(path.read_text()).body:
            if (
                isinstance(test, ast.FunctionDef)
                and test.name.endswith("found")
                and "without_a_fault" not in test.name
            ):
                [seeds[test.name]] = [
                    keyword.value.value
                    for call in ast.walk(test)
                    if isinstance(call, ast.Call)
                    for keyword in call.keywords
                    if keyword.arg == "kept" and isinstance(keyword.value, ast.Constant)
                ]
    return seeds


def test_each_planted_fault_of_the_simulation_is_listed_with_its_seed() -> None:
    rows = re.findall(r"^\| `(test_\w+)` \| test \| (\d+) \|$", README, re.MULTILINE)
    assert len(rows) > 30
    assert {name: int(seed) for name, seed in rows} == kept_seeds()


@pytest.mark.parametrize("plant", SEEN_AS)
def test_each_fault_of_chaos_is_listed(plant: str) -> None:
    assert f"\n| {plant} | long |" in README


@pytest.mark.parametrize("step", [step.name for step in steps()])
def test_each_step_of_the_long_tier_is_listed(step: str) -> None:
    table = README.partition("`make test-long`:")[2].partition("## Seeds")[0]
    assert f"`{step}`" in table


def test_the_seconds_are_those_of_the_budget_and_four_processes_need_15_minutes() -> None:
    budget = read_budget("test")
    rows = re.findall(
        r"^\| `([\w/]+)`[^|]*\|.*\| (\d+) \|$", README.partition("`make test-long`:")[0], re.MULTILINE
    )
    assert {folder: int(seconds) for folder, seconds in rows} == budget
    assert sum(budget.values()) <= 4 * 15 * 60
