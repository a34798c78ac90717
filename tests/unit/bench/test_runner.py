"""Which questions `make bench` asks, and what it keeps of the answers."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from bench.__main__ import chosen, keep, require_sizes, versions
from bench.lines import percentile, tell
from bench.questions import QUESTIONS, SIZES

PARSER = argparse.ArgumentParser()


def test_all_are_asked_or_those_of_the_names_and_groups_given() -> None:
    assert chosen([], PARSER) == [each for each in QUESTIONS.values() if not each.by_name]
    assert [each.name for each in chosen(["combinations"], PARSER)] == ["combinations"]
    assert [each.name for each in chosen(["engine", "hooks"], PARSER)] == [
        "throughput",
        "hops",
        "factors",
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


@pytest.fixture
def no_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SIZES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_sizes")
def test_a_size_that_no_question_takes_is_told_with_those_that_they_take(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARTITIONS", "1")
    asked = [QUESTIONS["throughput"], QUESTIONS["factors"]]
    with pytest.raises(SystemExit):
        require_sizes(asked, PARSER)
    told = "PARTITIONS: no size of throughput, factors, whose sizes are: EVENTS, SUBSCRIPTIONS. Unset it."
    assert told in capsys.readouterr().err
    require_sizes([*asked, QUESTIONS["latency"]], PARSER)


@pytest.mark.usefixtures("no_sizes")
@pytest.mark.parametrize("text", ["abc", "1e6", "0", "-1", "1.5"])
def test_a_size_that_is_no_whole_number_is_told(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTS", text)
    with pytest.raises(SystemExit, match="EVENTS is a whole number from 1 on, not"):
        require_sizes([QUESTIONS["throughput"]], PARSER)


@pytest.mark.usefixtures("no_sizes")
def test_an_empty_size_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBSCRIPTIONS", "")
    require_sizes([QUESTIONS["emit"]], PARSER)


@pytest.mark.parametrize(
    ("aim", "given", "expected"),
    [
        ({"least_ratio": 0.9}, (10, 0.9), ("ratio at least", 0.9, True)),
        ({"least_ratio": 0.9}, (10, 0.89), ("ratio at least", 0.9, False)),
        ({"most_ratio": 1.3}, (10, 1.31), ("ratio at most", 1.3, False)),
        ({"most": 10}, (10, 5.0), ("figure at most", 10, True)),
        ({"most": 10}, (10.1, None), ("figure at most", 10, False)),
        ({}, (10, 1.0), (None, None, None)),
    ],
)
def test_a_line_tells_whether_its_aim_is_met(
    aim: dict[str, float],
    given: tuple[float, float | None],
    expected: tuple[object, object, object],
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell("q", given[0], "us", given[1], **aim)
    line = json.loads(capsys.readouterr().out)
    assert (line["bound"], line["aim"], line["met"]) == expected


def test_an_aim_for_a_ratio_without_one_is_refused() -> None:
    with pytest.raises(ValueError, match="an aim for a ratio, and no ratio"):
        tell("q", 1, "us", least_ratio=0.5)


def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed() -> None:
    hundred = [float(n) for n in range(100, 0, -1)]
    assert [percentile(hundred, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]
    assert percentile([1.0, 2.0], 0.5) == 1


def test_the_spread_of_turns_is_told_where_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    tell("q", 2, "us", turns=[3.0, 1.0, 2.0])
    tell("q", 2, "us", turns=[2.0])
    several, one = map(json.loads, capsys.readouterr().out.splitlines())
    assert (several["lowest"], several["highest"]) == (1, 3)
    assert "lowest" not in one


def test_versions_name_what_is_measured_and_the_java_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = versions.__wrapped__()  # the run's own are kept
    assert {"python", "confluent-kafka", "librdkafka", "kafka"} <= found.keys()
    assert found["java"] == "17.0.15"
