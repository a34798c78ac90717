"""What is read of a query's plan about its writes; tests/integration/spark has the plans of real writes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from interlock.spark.completion.query_listener import Written, _written


def execution(kind: str, **methods: Any) -> Any:
    """A query execution whose plan has this class."""
    name = SimpleNamespace(getSimpleName=lambda: kind)
    return SimpleNamespace(analyzed=lambda: SimpleNamespace(getClass=lambda: name, **methods))


@pytest.mark.parametrize("kind", ["AppendData", "ReplaceData", "WriteDelta"])
def test_a_datasource_v2_write_has_its_table(kind: str) -> None:
    table = SimpleNamespace(name=lambda: "cat.db.orders")
    assert _written(execution(kind, table=lambda: table)) == Written(table="cat.db.orders")


@pytest.mark.parametrize("path", ["/data/orders", None])
def test_a_write_to_another_source_has_its_path_if_there_is_one(path: str | None) -> None:
    option = SimpleNamespace(isDefined=lambda: path is not None, get=lambda: path)
    options = SimpleNamespace(get=lambda name: option)
    found = _written(execution("SaveIntoDataSourceCommand", options=lambda: options))
    assert found == Written(path=path)


def test_a_query_that_writes_nothing_has_no_write() -> None:
    assert _written(execution("Project")) is None
