"""How commands print rows and sentences."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

import pytest
import yaml
from interlock.plugin.commands.console import counted, show

ROWS = [{"topic": "t", "partition": 0, "committed": None, "names": ["a", "b"]}]


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_json_has_numbers_as_numbers_and_none_as_null(
    output: str, read: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    show(Namespace(output=output), ROWS)
    assert read(capsys.readouterr().out) == ROWS


@pytest.mark.parametrize("output", ["table", "plain"])
def test_tables_show_none_as_empty(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(Namespace(output=output), ROWS)
    out = capsys.readouterr().out
    assert "None" not in out
    assert "['a', 'b']" in out


def test_counted_uses_singular_and_plural() -> None:
    texts = [counted(number, "dead letter") for number in (0, 1, 2)]
    assert texts == ["0 dead letters", "1 dead letter", "2 dead letters"]
