"""`make bench`: runs benchmarks, each in its own process, and keeps their results.

    python -m bench [NAME or GROUP ...]
    python -m bench --list

Results are tables on a terminal; elsewhere, or with `--output json`, one JSON object per line: `name` of the
benchmark, `question`, `figure`, `unit`, `ratio` to the baseline of the same run, `aim`, `met`, and the time,
commit and versions of the run. Results of a benchmark that finished, with default sizes, replace earlier ones
in `.build/bench/results.jsonl`. Sizes come from the environment: `EVENTS=20000 make bench ONLY=throughput`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka import libversion
from interlock.plugin.broker.jars import KAFKA_VERSION
from interlock.plugin.broker.java import find_java, version_of

from . import brokers
from .benchmarks import BENCHMARKS, Benchmark
from .cells import COLUMNS, row
from .folders import WHERE
from .lines import progress
from .results import ROOT, Line, keep
from .sizes import sizes_given

JVM_OPTIONS: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")  # brokers and Spark inherit them
PACKAGES: Final = ("apache-airflow", "confluent-kafka", "pyspark", "apache-airflow-providers-apache-kafka")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="make bench",
        usage="make bench [ONLY=NAME,...] [OUTPUT=table|json]",
        description="Run benchmarks.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a benchmark or a group; default: all")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    parser.add_argument(
        "--output", choices=("table", "json"), help="default: a table on a terminal, else json"
    )
    parser.add_argument("--run-here", metavar="NAME", help=argparse.SUPPRESS)  # run it in this process
    parser.add_argument("--bootstrap-servers", default="", help=argparse.SUPPRESS)  # of its broker
    given = parser.parse_args()
    if given.list:
        rows = [("group", "name", "measures", "sizes"), *(_listed(each) for each in BENCHMARKS.values())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for listed in rows:
            print("  ".join(map(str.ljust, listed, widths)).rstrip())
    elif given.run_here:
        if os.getpgrp() == os.getpid():  # otherwise a user runs it, with other processes in its group
            threading.Thread(target=_end_with_parent, daemon=True).start()
        BENCHMARKS[given.run_here].function()(given.bootstrap_servers)
    else:
        benchmarks = chosen(given.names, parser)
        require_sizes(benchmarks, parser)
        _run_all(benchmarks, given.output or ("table" if sys.stdout.isatty() else "json"))


def _listed(benchmark: Benchmark) -> tuple[str, str, str, str]:
    return benchmark.group, benchmark.name, benchmark.about, " ".join(benchmark.sizes)


def _run_all(benchmarks: Sequence[Benchmark], output: str) -> None:
    """Runs them one after the other. However this ends, no process is left running."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # set by nohup
            signal.signal(number, lambda sent, _: sys.exit(128 + sent))
    failed: list[str] = []
    for at, each in enumerate(benchmarks):
        try:
            if not _run(each, output):
                failed.append(each.name)
        except KeyboardInterrupt:
            finished = ", ".join(done.name for done in benchmarks[:at] if done.name not in failed) or "none"
            without = f" Failed: {', '.join(failed)}." if failed else ""
            progress(f"\nbench: stopped by Ctrl-C; nothing is left running. Finished: {finished}.{without}")
            sys.exit(130)
    if failed:
        sys.exit(f"bench: failed: {', '.join(failed)}")


def _end_with_parent() -> None:
    """Kills this process and all that it started, once the parent process has ended."""
    os.read(0, 1)  # the parent writes nothing: this returns when the parent's end is closed
    os.killpg(0, signal.SIGKILL)


def chosen(names: list[str], parser: argparse.ArgumentParser) -> list[Benchmark]:
    """The benchmarks of these names and groups; without any, all except those that run only when named."""
    groups = list(dict.fromkeys(each.group for each in BENCHMARKS.values()))
    if unknown := sorted(set(names) - {*BENCHMARKS, *groups}):
        parser.error(
            f"unknown: {', '.join(unknown)}. Benchmarks: {', '.join(BENCHMARKS)}."
            f" Groups: {', '.join(groups)}. `make bench-list` describes them."
        )
    return [
        each
        for each in BENCHMARKS.values()
        if ({each.name, each.group} & set(names) if names else not each.by_name)
    ]


def require_sizes(benchmarks: list[Benchmark], parser: argparse.ArgumentParser) -> None:
    """Ends the bench with an error for a size that none of these benchmarks takes, or that is not a
    number."""
    taken = {name for each in benchmarks for name in each.sizes}
    if unused := sorted(sizes_given().keys() - taken):
        names = ", ".join(each.name for each in benchmarks)
        sizes = f"takes {', '.join(sorted(taken))}" if taken else "takes none"
        parser.error(f"{', '.join(unused)} is not a size of {names}, which {sizes}. Unset it.")


def _run(benchmark: Benchmark, output: str) -> bool:
    """Runs a benchmark in its own process. Returns whether it succeeded within its time limit."""
    progress(f"== {benchmark.name}: {benchmark.about} (at most {benchmark.seconds} s)")
    began, circumstances = time.monotonic(), _circumstances(benchmark)
    lines: list[dict[str, Any]] = []
    with ExitStack() as stack:
        servers = stack.enter_context(brokers.started()) if benchmark.start_broker else ""
        process = subprocess.Popen(
            [sys.executable, "-m", "bench", "--run-here", benchmark.name, "--bootstrap-servers", servers],
            cwd=ROOT,
            stdin=subprocess.PIPE,  # see _end_with_parent
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        stack.callback(_end, process)  # with all that it started, however this ends
        late = threading.Event()

        def time_out() -> None:
            late.set()
            _end(process)

        limit = threading.Timer(benchmark.seconds, time_out)
        limit.daemon = True
        limit.start()
        stack.callback(limit.cancel)
        assert process.stdout is not None
        for text in process.stdout:
            if text.startswith("{"):
                lines.append({"name": benchmark.name, **json.loads(text), **circumstances})
                if output == "json":
                    print(json.dumps(lines[-1]), flush=True)
        code = process.wait()
    took_s = round(time.monotonic() - began)
    if late.is_set() or code:
        text = "did not finish" if late.is_set() else f"did not finish: exit {code}"
        lines.append({"name": benchmark.name, "question": text, "figure": took_s, "unit": "s",
                      "ratio": None, "aim": None, "met": None, **circumstances})  # fmt: skip
        if output == "json":
            print(json.dumps(lines[-1]), flush=True)
        what = "not kept: it did not finish"
    elif circumstances["given"]:
        what = "not kept: sizes were set"
    else:
        keep(benchmark.name, [{**line, "took_s": took_s} for line in lines])
        what = "kept"
    if output == "table":
        _show(benchmark, lines)
    progress(f"== {benchmark.name}: {took_s} s, {what}")
    return not code and not late.is_set()


def _show(benchmark: Benchmark, lines: Sequence[Line]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    of = lines[0]
    what = ", ".join(f"{name} {number}" for name, number in of["versions"].items())
    ratio = f"Ratios are {benchmark.ratio}. " if benchmark.ratio else ""
    caption = escape(f"{ratio}At {of['commit']}, {of['cores']} cores; {what}.")
    table = Table(title=benchmark.about, caption=caption, caption_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in ("figure", "ratio") else "left")
    for line in lines:
        table.add_row(*map(escape, row(line)))
    Console().print(table)


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _circumstances(benchmark: Benchmark) -> dict[str, Any]:
    """The circumstances of a run: time, commit, versions, machine."""
    given = {name: text for name, text in sizes_given().items() if name in benchmark.sizes}
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "given": given,
        "versions": versions(),
        **{name.lower(): text for name in JVM_OPTIONS if (text := os.environ.get(name))},
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        **({"files": WHERE} if benchmark.uses_broker else {}),
    }


def _processor() -> str:
    """The processor's model, if the system names it."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def _commit() -> str:
    """The checkout's commit, with a + if it has changes."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or "unknown"


@cache
def versions() -> dict[str, str]:
    """The versions of the measured packages, and of Python, Kafka and Java."""
    return {
        "python": sys.version.split()[0],
        **{name: version(name) for name in PACKAGES},
        "librdkafka": libversion()[0],
        "kafka": KAFKA_VERSION,
        "java": version_of(find_java()),
    }


if __name__ == "__main__":
    main()
