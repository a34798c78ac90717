"""Where the test time goes: seconds by folder, beside the seconds that budget.json allows each folder.

A folder over its budget is a loud warning and no failure, because a busy machine is slower. Seconds are wall
time of setup, test and teardown, added up over all test processes.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

BUDGET_FILE = Path(__file__).parents[1] / "budget.json"


def read_budget(tier: str, path: Path = BUDGET_FILE) -> dict[str, float]:
    """{folder under tests/: seconds} of a tier: "test" or "long"."""
    budget: dict[str, float] = json.loads(path.read_text())[tier]
    return budget


class Budget:
    """Adds up what tests take. Register it where reports arrive: in the controller of a distributed run."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._allowed = seconds
        self.taken: Counter[str] = Counter()

    def folder_of(self, nodeid: str) -> str:
        """The longest folder of the budget that holds this test; else the folder of its file."""
        folder = nodeid.partition("::")[0].rpartition("/")[0]
        known = [each for each in self._allowed if f"{folder}/".startswith(f"{each}/")]
        return max(known, key=len, default=folder)

    def over(self) -> list[tuple[str, float, float]]:
        """(folder, seconds taken, seconds allowed) of each folder that took more."""
        return [
            (folder, self.taken[folder], allowed)
            for folder, allowed in self._allowed.items()
            if self.taken[folder] > allowed
        ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.taken[self.folder_of(report.nodeid)] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.taken:
            return
        terminalreporter.section("seconds by folder, and what tests/budget.json allows")
        for folder, seconds in sorted(self.taken.items(), key=lambda each: -each[1]):
            allowed = self._allowed.get(folder)
            terminalreporter.write_line(f"{seconds:8.1f} {allowed or '-':>6}  {folder}")
        for folder, seconds, allowed in self.over():
            terminalreporter.write_line(
                f"WARNING: OVER BUDGET: tests/{folder} took {seconds:.0f} s; its budget is {allowed:.0f} s",
                yellow=True,
                bold=True,
            )
