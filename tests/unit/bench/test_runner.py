"""Which questions `make bench` asks, and what it keeps of the answers."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from bench.__main__ import chosen, keep
from bench.questions import QUESTIONS

PARSER = argparse.ArgumentParser()


def test_all_are_asked_or_those_of_the_names_and_groups_given() -> None:
    assert chosen([], PARSER) == [each for each in QUESTIONS.values() if not each.by_name]
    assert [each.name for each in chosen(["combinations"], PARSER)] == ["combinations"]
    assert [each.name for each in chosen(["engine", "hooks"], PARSER)] == [
        "throughput",
        "factors",
        "latency",
        "hooks",
    ]


def test_a_name_that_there_is_not_is_told_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        chosen(["engin"], PARSER)
    assert "there is no engin: archive, backtest, combinations, conditions" in capsys.readouterr().err


def test_answers_to_a_question_that_is_asked_again_replace_those_of_before(tmp_path: Path) -> None:
    results = tmp_path / "bench" / "results.jsonl"
    for name, figure in (("a", 1), ("b", 2), ("a", 3)):
        keep(name, [{"name": name, "figure": figure}], results)
    kept = [json.loads(line) for line in results.read_text().splitlines()]
    assert [(line["name"], line["figure"]) for line in kept] == [("b", 2), ("a", 3)]
