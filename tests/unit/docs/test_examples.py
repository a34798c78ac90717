"""The Python examples of README and docs that need no broker run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What needs a broker or Spark runs in tests/integration/docs.
ELSEWHERE = ("Emitter(", "completion_event(", "Producer(")


def blocks() -> list[Any]:
    """Each ```python block, under the name of its page and line."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
            if not any(word in match[1] for word in ELSEWHERE):
                line = text.count("\n", 0, match.start()) + 1
                found.append(pytest.param(match[1], id=f"{page.relative_to(ROOT)}:{line}"))
    return found


@pytest.mark.parametrize("source", blocks())
def test_an_example_runs_as_it_stands(source: str) -> None:
    with DAG("around_the_example", schedule=None):  # for tasks that stand alone on the page
        exec(compile(source, "example", "exec"), {"__name__": "example"})


def test_the_first_dag_of_the_readme_waits_for_both_and_reports_then() -> None:
    source = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(source, "README", "exec"), names)
    ready = names["ready"]
    assert list(ready.condition.labels) == ["orders", "rates"]
    assert ready.downstream_task_ids == {"report"}


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []
