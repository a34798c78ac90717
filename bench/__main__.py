"""`make bench`: asks the questions, each in a process of its own, and keeps what they answer.

    python -m bench [NAME or GROUP ...]
    python -m bench --list

On a terminal answers are tables; elsewhere, or with `--output json`, a line each, one JSON object: `name`
of the question, then `question`, `figure`, `unit`, `ratio` to the baseline of the same run, `aim` and `met`;
with the time, commit and versions that it was taken with. Lines of a question that was given no sizes and
answered whole are kept in `.build/bench/results.jsonl`, in the place of those before. Sizes are given in the
environment: `EVENTS=20000 make bench ONLY=throughput`.
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
from .cells import COLUMNS, row
from .folders import WHERE
from .lines import progress
from .questions import QUESTIONS, Question
from .results import ROOT, Line, keep
from .sizes import sizes_given

OF_JVMS: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")  # brokers and Spark take them from the environment
PACKAGES: Final = ("apache-airflow", "confluent-kafka", "pyspark", "apache-airflow-providers-apache-kafka")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="make bench",
        usage="make bench [ONLY=NAME,...] [OUTPUT=table|json]",
        description="Ask the questions of the bench.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a question or a group; default: all")
    parser.add_argument("--list", action="store_true", help="what there is to ask")
    parser.add_argument(
        "--output", choices=("table", "json"), help="default: a table on a terminal, else json"
    )
    parser.add_argument("--ask", metavar="NAME", help=argparse.SUPPRESS)  # in a process of its own
    parser.add_argument("--at", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.list:
        rows = [("group", "name", "asks", "sizes"), *(_listed(each) for each in QUESTIONS.values())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for listed in rows:
            print("  ".join(map(str.ljust, listed, widths)).rstrip())
    elif given.ask:
        if os.getpgrp() == os.getpid():  # else somebody else asks: its group has others
            threading.Thread(target=_end_with_parent, daemon=True).start()
        QUESTIONS[given.ask].ask(given.at)
    else:
        questions = chosen(given.names, parser)
        require_sizes(questions, parser)
        _ask_all(questions, given.output or ("table" if sys.stdout.isatty() else "json"))


def _listed(question: Question) -> tuple[str, str, str, str]:
    return question.group, question.name, question.about, " ".join(question.sizes)


def _ask_all(questions: Sequence[Question], output: str) -> None:
    """One after the other. However this is ended, nothing is left running."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as of nohup
            signal.signal(number, lambda sent, _: sys.exit(128 + sent))
    failed: list[str] = []
    for at, each in enumerate(questions):
        try:
            if not _asked(each, output):
                failed.append(each.name)
        except KeyboardInterrupt:
            answered = ", ".join(done.name for done in questions[:at] if done.name not in failed) or "none"
            without = f" Without an answer: {', '.join(failed)}." if failed else ""
            progress(f"\nbench: stopped by Ctrl-C; nothing is left running. Answered: {answered}.{without}")
            sys.exit(130)
    if failed:
        sys.exit(f"bench: without an answer: {', '.join(failed)}")


def _end_with_parent() -> None:
    """Ends this process, and all that it started, once the one that asks is gone, however that ended."""
    os.read(0, 1)  # nothing is ever written: it returns when the other end is closed
    os.killpg(0, signal.SIGKILL)


def chosen(names: list[str], parser: argparse.ArgumentParser) -> list[Question]:
    """The questions of these names and groups; for none all but those that are asked by name."""
    groups = list(dict.fromkeys(each.group for each in QUESTIONS.values()))
    if unknown := sorted(set(names) - {*QUESTIONS, *groups}):
        parser.error(
            f"there is no {', '.join(unknown)}. Questions: {', '.join(QUESTIONS)}. Groups of them:"
            f" {', '.join(groups)}. `make bench-list` tells what they ask."
        )
    return [
        each
        for each in QUESTIONS.values()
        if ({each.name, each.group} & set(names) if names else not each.by_name)
    ]


def require_sizes(questions: list[Question], parser: argparse.ArgumentParser) -> None:
    """End with a sentence where a size is given that none of these takes, or that is no number."""
    taken = {name for each in questions for name in each.sizes}
    if unused := sorted(sizes_given().keys() - taken):
        names = ", ".join(each.name for each in questions)
        sizes = f"takes {', '.join(sorted(taken))}" if taken else "takes no size"
        parser.error(f"{', '.join(unused)} is no size of {names}, which {sizes}. Unset it.")


def _asked(question: Question, output: str) -> bool:
    """Whether it was answered in its time, by a process that ended well."""
    progress(f"== {question.name}: {question.about} (at most {question.seconds} s)")
    began, taken_with = time.monotonic(), _taken_with(question)
    lines: list[dict[str, Any]] = []
    with ExitStack() as stack:
        at = stack.enter_context(brokers.started()) if question.needs_broker else ""
        process = subprocess.Popen(
            [sys.executable, "-m", "bench", "--ask", question.name, "--at", at],
            cwd=ROOT,
            stdin=subprocess.PIPE,  # see _end_with_parent
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        stack.callback(_end, process)  # with all that it started, however this ends
        late = threading.Event()

        def over() -> None:
            late.set()
            _end(process)

        limit = threading.Timer(question.seconds, over)
        limit.daemon = True
        limit.start()
        stack.callback(limit.cancel)
        assert process.stdout is not None
        for text in process.stdout:
            if text.startswith("{"):
                lines.append({"name": question.name, **json.loads(text), **taken_with})
                if output == "json":
                    print(json.dumps(lines[-1]), flush=True)
        code = process.wait()
    took_s = round(time.monotonic() - began)
    if late.is_set() or code:
        told = "did not finish" if late.is_set() else f"did not finish: exit {code}"
        lines.append({"name": question.name, "question": told, "figure": took_s, "unit": "s",
                      "ratio": None, "aim": None, "met": None, **taken_with})  # fmt: skip
        if output == "json":
            print(json.dumps(lines[-1]), flush=True)
        what = "not kept: not all of it is answered"
    elif taken_with["given"]:
        what = "not kept: sizes were given"
    else:
        keep(question.name, [{**line, "took_s": took_s} for line in lines])
        what = "kept"
    if output == "table":
        _show(question, lines)
    progress(f"== {question.name}: {took_s} s, {what}")
    return not code and not late.is_set()


def _show(question: Question, lines: Sequence[Line]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    of = lines[0]
    what = ", ".join(f"{name} {number}" for name, number in of["versions"].items())
    ratio = f"Ratios are {question.ratio}. " if question.ratio else ""
    caption = escape(f"{ratio}At {of['commit']}, {of['cores']} cores; {what}.")
    table = Table(title=question.about, caption=caption, caption_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in ("figure", "ratio") else "left")
    for line in lines:
        table.add_row(*map(escape, row(line)))
    Console().print(table)


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _taken_with(question: Question) -> dict[str, Any]:
    """What a figure depends on, beside the machine."""
    given = {name: text for name, text in sizes_given().items() if name in question.sizes}
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "given": given,
        "versions": versions(),
        **{name.lower(): text for name in OF_JVMS if (text := os.environ.get(name))},
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        **({"files": WHERE} if question.has_broker else {}),
    }


def _processor() -> str:
    """Its model, where the system names it."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def _commit() -> str:
    """Of the checkout; with a + where it has changes."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or "unknown"


@cache
def versions() -> dict[str, str]:
    """What is measured, and what it stands on."""
    return {
        "python": sys.version.split()[0],
        **{name: version(name) for name in PACKAGES},
        "librdkafka": libversion()[0],
        "kafka": KAFKA_VERSION,
        "java": version_of(find_java()),
    }


if __name__ == "__main__":
    main()
