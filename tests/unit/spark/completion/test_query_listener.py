"""What a plan tells of what it wrote; those of Spark itself are written in tests/integration/spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from interlock.spark.completion.query_listener import Written, _written


def execution(kind: str, **methods: Any) -> Any:
    """One whose plan is of this class."""
    name = SimpleNamespace(getSimpleName=lambda: kind)
    return SimpleNamespace(analyzed=lambda: SimpleNamespace(getClass=lambda: name, **methods))


@pytest.mark.parametrize("kind", ["AppendData", "ReplaceData", "WriteDelta"])
def test_a_write_of_datasource_v2_tells_its_table(kind: str) -> None:
    table = SimpleNamespace(name=lambda: "cat.db.orders")
    assert _written(execution(kind, table=lambda: table)) == Written(table="cat.db.orders")


@pytest.mark.parametrize("path", ["/data/orders", None])
def test_a_write_of_another_source_tells_its_path_where_it_has_one(path: str | None) -> None:
    option = SimpleNamespace(isDefined=lambda: path is not None, get=lambda: path)
    options = SimpleNamespace(get=lambda name: option)
    found = _written(execution("SaveIntoDataSourceCommand", options=lambda: options))
    assert found == Written(path=path)


def test_a_query_that_writes_nothing_tells_nothing() -> None:
    assert _written(execution("Project")) is None
