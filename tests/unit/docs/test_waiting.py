"""The table of what happens to a wait: each row has a test that is named after it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SECTION = re.compile(r"## What happens to a wait\n(.*?)In other situations", re.DOTALL)


def rows() -> list[str]:
    found = SECTION.search((ROOT / "docs" / "use" / "waiting.md").read_text())
    assert found is not None
    return [line.split("|")[1].strip() for line in found[1].splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("row", rows())
def test_each_row_of_the_table_has_a_test_of_its_name(row: str) -> None:
    name = "test_" + re.sub(r"\W+", "_", row.lower()).strip("_")
    pages = ("unit/operators", "integration/triggers")
    tests = [path.read_text() for page in pages for path in sorted((ROOT / "tests" / page).glob("test_*.py"))]
    assert any(f"def {name}_" in text for text in tests), f"no def {name}_..."
