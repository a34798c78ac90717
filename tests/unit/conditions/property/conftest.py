"""Shows how many of the random cases have which properties."""

from __future__ import annotations

import pytest

from .shares import TABLES


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for table in TABLES:
        terminalreporter.write_sep("-", "random conditions")
        terminalreporter.write_line(table)
