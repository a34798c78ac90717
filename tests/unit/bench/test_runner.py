"""Which questions `make bench` asks, and what it keeps of the answers."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.__main__ import chosen, require_sizes, versions
from bench.folders import remove_left_behind
from bench.lines import percentile, tell
from bench.questions import QUESTIONS
from bench.results import ROOT, keep
from bench.sizes import SIZES

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
    assert "there is no engin. Questions: conditions, throughput, hops" in capsys.readouterr().err


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
    told = "PARTITIONS is no size of throughput, factors, which takes EVENTS, SUBSCRIPTIONS. Unset it."
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


@pytest.fixture
def asking(no_sizes: None) -> Iterator[subprocess.Popen[str]]:
    """A bench that asks a question which needs no broker, as a terminal's shell starts it."""
    bench = subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, "-m", "bench", "conditions"],
        cwd=ROOT, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    yield bench
    bench.kill()
    bench.communicate()


def asked_by(bench: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes that it asks: it has others, for moments, that tell it of the machine."""
    found = []
    for child in psutil.Process(bench.pid).children():
        with suppress(psutil.Error):
            if "--ask" in child.cmdline():
                found.append(child)
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_however_a_bench_is_ended_the_process_that_it_asks_is_ended(
    number: int, asking: subprocess.Popen[str], eventually: Callable[..., Any]
) -> None:
    asked = eventually("a question", lambda: asked_by(asking))
    os.kill(asking.pid, number)
    gone, alive = psutil.wait_procs(asked, 60)
    assert (len(gone), alive) == (1, [])
    _, told = asking.communicate(timeout=60)
    assert asking.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert "Traceback" not in told  # one that nobody ends says that its pipe is broken, at its first answer


def test_what_is_asked_ends_with_all_that_it_started_once_nobody_asks_any_more() -> None:
    code = (
        "import subprocess, sys; from bench.__main__ import _end_with_parent;"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid, flush=True);"
        "_end_with_parent()"
    )
    asked = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, text=True, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert asked.stdin is not None
    assert asked.stdout is not None
    started = psutil.Process(int(asked.stdout.readline()))
    asked.stdin.close()
    assert asked.wait(60) == -signal.SIGKILL
    asked.stdout.close()
    assert psutil.wait_procs([started], 60)[1] == []


def test_ctrl_c_ends_a_bench_with_a_sentence(
    asking: subprocess.Popen[str], eventually: Callable[..., Any]
) -> None:
    eventually("a question", lambda: asked_by(asking))
    asking.send_signal(signal.SIGINT)
    _, told = asking.communicate(timeout=60)
    assert asking.returncode == 130
    assert told.endswith("bench: stopped by Ctrl-C; nothing is left running. Answered: none.\n")
    assert "Traceback" not in told


def test_folders_of_a_bench_that_was_killed_are_removed_and_others_stay(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    own, others, unnamed = (f"interlock-bench-{who}-x" for who in (os.getpid(), ended.pid, "abc"))
    for name in (own, others, unnamed, f"interlock-bench-{'9' * 20}-x"):
        (tmp_path / name).mkdir()
    remove_left_behind(tmp_path)
    assert {folder.name for folder in tmp_path.iterdir()} == {own, unnamed}


@pytest.mark.usefixtures("no_sizes")
def test_a_bench_that_ignores_hangups_goes_on(eventually: Callable[..., Any]) -> None:
    bench = subprocess.Popen(
        ["nohup", sys.executable, "-m", "bench", "conditions"],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        eventually("a question", lambda: asked_by(bench))
        bench.send_signal(signal.SIGHUP)
        bench.terminate()
        assert bench.wait(60) == 128 + signal.SIGTERM
    finally:
        bench.kill()
