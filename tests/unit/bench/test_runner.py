"""Which benchmarks `make bench` runs, and which results it keeps."""

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
from bench.benchmarks import BENCHMARKS
from bench.folders import remove_left_behind
from bench.lines import Aim, percentile, report
from bench.results import ROOT, keep
from bench.sizes import SIZES

PARSER = argparse.ArgumentParser()


def test_all_run_or_those_of_the_given_names_and_groups() -> None:
    assert chosen([], PARSER) == [each for each in BENCHMARKS.values() if not each.by_name]
    assert [each.name for each in chosen(["combinations"], PARSER)] == ["combinations"]
    assert [each.name for each in chosen(["engine", "hooks"], PARSER)] == [
        "throughput",
        "hops",
        "factors",
        "hooks",
    ]


def test_each_benchmark_has_a_function_that_runs_it() -> None:
    assert [name for name, each in BENCHMARKS.items() if not callable(each.function())] == []


def test_an_unknown_name_is_an_error_that_lists_the_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        chosen(["engin"], PARSER)
    assert "unknown: engin. Benchmarks: conditions, throughput, hops" in capsys.readouterr().err


def test_new_results_of_a_benchmark_replace_earlier_ones(tmp_path: Path) -> None:
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
def test_a_size_that_no_benchmark_takes_is_an_error_that_lists_their_sizes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARTITIONS", "1")
    benchmarks = [BENCHMARKS["throughput"], BENCHMARKS["factors"]]
    with pytest.raises(SystemExit):
        require_sizes(benchmarks, PARSER)
    message = "PARTITIONS is not a size of throughput, factors, which takes EVENTS, SUBSCRIPTIONS. Unset it."
    assert message in capsys.readouterr().err
    require_sizes([*benchmarks, BENCHMARKS["latency"]], PARSER)


@pytest.mark.usefixtures("no_sizes")
@pytest.mark.parametrize("text", ["abc", "1e6", "0", "-1", "1.5"])
def test_a_size_that_is_not_a_whole_number_is_an_error(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTS", text)
    with pytest.raises(SystemExit, match="EVENTS must be a whole number from 1 on, not"):
        require_sizes([BENCHMARKS["throughput"]], PARSER)


@pytest.mark.usefixtures("no_sizes")
def test_an_empty_size_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBSCRIPTIONS", "")
    require_sizes([BENCHMARKS["emit"]], PARSER)


@pytest.mark.parametrize(
    ("aim", "given", "expected"),
    [
        (Aim("ratio at least", 0.9), (10, 0.9), ("ratio at least", 0.9, True)),
        (Aim("ratio at least", 0.9), (10, 0.89), ("ratio at least", 0.9, False)),
        (Aim("ratio at most", 1.3), (10, 1.31), ("ratio at most", 1.3, False)),
        (Aim("figure at most", 10), (10, 5.0), ("figure at most", 10, True)),
        (Aim("figure at most", 10), (10.1, None), ("figure at most", 10, False)),
        (Aim("figure at least", 10), (10, None), ("figure at least", 10, True)),
        (Aim("figure at least", 10), (9.9, 20.0), ("figure at least", 10, False)),
        (None, (10, 1.0), (None, None, None)),
    ],
)
def test_a_line_says_whether_its_aim_is_met(
    aim: Aim | None,
    given: tuple[float, float | None],
    expected: tuple[object, object, object],
    capsys: pytest.CaptureFixture[str],
) -> None:
    report("q", given[0], "us", given[1], aim=aim)
    line = json.loads(capsys.readouterr().out)
    assert (line["bound"], line["aim"], line["met"]) == expected


def test_an_aim_for_a_ratio_without_one_is_refused() -> None:
    with pytest.raises(ValueError, match="an aim for a ratio, but no ratio"):
        report("q", 1, "us", aim=Aim("ratio at least", 0.5))


def test_a_percentile_is_the_least_value_with_its_share_of_values_at_or_below_it() -> None:
    hundred = [float(n) for n in range(100, 0, -1)]
    assert [percentile(hundred, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]
    assert percentile([1.0, 2.0], 0.5) == 1


def test_a_line_of_several_turns_has_their_lowest_and_highest(capsys: pytest.CaptureFixture[str]) -> None:
    report("q", 2, "us", turns=[3.0, 1.0, 2.0])
    report("q", 2, "us", turns=[2.0])
    several, one = map(json.loads, capsys.readouterr().out.splitlines())
    assert (several["lowest"], several["highest"]) == (1, 3)
    assert "lowest" not in one


def test_versions_name_the_measured_packages_and_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = versions.__wrapped__()  # bypasses the cache
    assert {"python", "confluent-kafka", "librdkafka", "kafka"} <= found.keys()
    assert found["java"] == "17.0.15"


@pytest.fixture
def bench(no_sizes: None) -> Iterator[subprocess.Popen[str]]:
    """A bench that runs a benchmark without a broker, started as by a shell on a terminal."""
    process = subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, "-m", "bench", "conditions"],
        cwd=ROOT, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    yield process
    process.kill()
    process.communicate()


def benchmarks_of(bench: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes of its benchmarks, without short-lived others that inspect the machine."""
    found = []
    for child in psutil.Process(bench.pid).children():
        with suppress(psutil.Error):
            if "--run-here" in child.cmdline():
                found.append(child)
    return found


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(n, marks=pytest.mark.long) for n in (signal.SIGTERM, signal.SIGHUP))],
)
def test_the_process_of_a_benchmark_ends_however_the_bench_is_ended(
    number: int, bench: subprocess.Popen[str], eventually: Callable[..., Any]
) -> None:
    running = eventually("a benchmark runs", lambda: benchmarks_of(bench))
    os.kill(bench.pid, number)
    gone, alive = psutil.wait_procs(running, 60)
    assert (len(gone), alive) == (1, [])
    _, output = bench.communicate(timeout=60)
    assert bench.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert "Traceback" not in output  # one that is not ended fails with a broken pipe at its first line


@pytest.mark.long
def test_a_benchmark_ends_with_all_that_it_started_when_its_parent_is_gone() -> None:
    code = (
        "import subprocess, sys; from bench.__main__ import _end_with_parent;"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid, flush=True);"
        "_end_with_parent()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, text=True, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    started = psutil.Process(int(process.stdout.readline()))
    process.stdin.close()
    assert process.wait(60) == -signal.SIGKILL
    process.stdout.close()
    assert psutil.wait_procs([started], 60)[1] == []


def test_ctrl_c_ends_a_bench_with_one_line(
    bench: subprocess.Popen[str], eventually: Callable[..., Any]
) -> None:
    eventually("a benchmark runs", lambda: benchmarks_of(bench))
    bench.send_signal(signal.SIGINT)
    _, output = bench.communicate(timeout=60)
    assert bench.returncode == 130
    assert output.endswith("bench: stopped by Ctrl-C; nothing is left running. Finished: none.\n")
    assert "Traceback" not in output


def test_folders_of_a_killed_bench_are_removed_and_others_stay(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    own, others, unnamed = (f"interlock-bench-{who}-x" for who in (os.getpid(), ended.pid, "abc"))
    for name in (own, others, unnamed, f"interlock-bench-{'9' * 20}-x"):
        (tmp_path / name).mkdir()
    remove_left_behind(tmp_path)
    assert {folder.name for folder in tmp_path.iterdir()} == {own, unnamed}


@pytest.mark.long
@pytest.mark.usefixtures("no_sizes")
def test_a_bench_that_ignores_hangups_continues(eventually: Callable[..., Any]) -> None:
    bench = subprocess.Popen(
        ["nohup", sys.executable, "-m", "bench", "conditions"],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        eventually("a benchmark runs", lambda: benchmarks_of(bench))
        bench.send_signal(signal.SIGHUP)
        bench.terminate()
        assert bench.wait(60) == 128 + signal.SIGTERM
    finally:
        bench.kill()
