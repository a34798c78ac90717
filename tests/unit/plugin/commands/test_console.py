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
def test_programs_get_numbers_as_numbers_and_nothing_as_null(
    output: str, read: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    show(Namespace(output=output), ROWS)
    assert read(capsys.readouterr().out) == ROWS


@pytest.mark.parametrize("output", ["table", "plain"])
def test_people_see_nothing_where_there_is_nothing(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(Namespace(output=output), ROWS)
    out = capsys.readouterr().out
    assert "None" not in out
    assert "['a', 'b']" in out


def test_what_is_counted_is_one_or_several() -> None:
    assert [counted(number, "dead letter") for number in (0, 1, 2)] == [
        "0 dead letters",
        "1 dead letter",
        "2 dead letters",
    ]
