"""The metrics of the page for operators are those that the code publishes."""

from __future__ import annotations

import re

import pytest

from tests.kit.metrics import OPERATING, PUBLISHERS, ROOT, documented, published
from tests.unit.docs.test_links import tracked


def test_the_page_lists_each_metric_with_its_kind_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert documented() == published(monkeypatch).kinds


def test_metrics_are_published_only_where_the_test_above_sees_them() -> None:
    calls = re.compile(r"\b_?(?:metrics|stats)\.(?:incr|gauge|timing)\(")
    found = {str(path.relative_to(ROOT)) for path in tracked("*.py") if calls.search(path.read_text())}
    assert {name for name in found if not name.startswith("tests/")} == PUBLISHERS


def test_the_page_names_the_tags_that_the_code_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """`hostname` is added to gauges by Airflow's side."""
    tags = published(monkeypatch).tags
    page = OPERATING.read_text()
    assert {name for name, given in tags.items() if not {"bus", "deployment"} <= given} == set()
    beyond = {name: given - {"bus", "deployment"} for name, given in tags.items()}
    assert {name for name, given in beyond.items() if given == {"dag_id"}} == {
        name for name in tags if name.startswith("interlock.relay.")
    }
    for tag in {tag for given in beyond.values() for tag in given}:
        assert f"`{tag}`" in page
