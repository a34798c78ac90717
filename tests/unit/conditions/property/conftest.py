"""Shows which shares of the random cases have what."""

from __future__ import annotations

import pytest

from .shares import TABLES


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for table in TABLES:
        terminalreporter.write_sep("-", "random conditions")
        terminalreporter.write_line(table)
