"""`make bench`: asks the questions, each in a process of its own, and keeps what they answer.

    python -m bench [NAME or GROUP ...]
    python -m bench --list

A line is one JSON object: `name` of the question, then `question`, `figure`, `unit`, `ratio` to the baseline
of the same run, `aim` and `met`; with the time, commit and versions that it was taken with. Lines go to
stdout and, of a question that was given no sizes and answered whole, to `.build/bench/results.jsonl`, in the
place of those before. Sizes are given in the environment: `EVENTS=20000 make bench ONLY=throughput`.
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
from .lines import progress
from .questions import QUESTIONS, Question, sizes_given

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / ".build" / "bench" / "results.jsonl"
OF_JVMS: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")  # brokers and Spark take them from the environment
PACKAGES: Final = ("apache-airflow", "confluent-kafka", "pyspark", "apache-airflow-providers-apache-kafka")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Ask the questions of the bench.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a question or a group; default: all")
    parser.add_argument("--list", action="store_true", help="what there is to ask")
    parser.add_argument("--ask", metavar="NAME", help=argparse.SUPPRESS)  # in a process of its own
    parser.add_argument("--at", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.list:
        for each in QUESTIONS.values():
            print(f"{each.group:12} {each.name:14} {each.about:62} {' '.join(each.sizes)}".rstrip())
    elif given.ask:
        QUESTIONS[given.ask].ask(given.at)
    else:
        questions = chosen(given.names, parser)
        require_sizes(questions, parser)
        failed = [each.name for each in questions if not _asked(each)]
        if failed:
            sys.exit(f"bench: without an answer: {', '.join(failed)}")


def chosen(names: list[str], parser: argparse.ArgumentParser) -> list[Question]:
    """The questions of these names and groups; for none all but those that are asked by name."""
    known = {*QUESTIONS, *(each.group for each in QUESTIONS.values())}
    if unknown := sorted(set(names) - known):
        parser.error(f"there is no {', '.join(unknown)}: {', '.join(sorted(known))}")
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
        sizes = ", ".join(sorted(taken)) or "none"
        parser.error(f"{', '.join(unused)}: no size of {names}, whose sizes are: {sizes}. Unset it.")


def _asked(question: Question) -> bool:
    """Whether it was answered in its time, by a process that ended well."""
    progress(f"== {question.name}: {question.about} (at most {question.seconds} s)")
    began, taken_with = time.monotonic(), _taken_with(question)
    lines: list[dict[str, Any]] = []
    with ExitStack() as stack:
        at = stack.enter_context(brokers.started()) if question.needs_broker else ""
        process = subprocess.Popen(
            [sys.executable, "-m", "bench", "--ask", question.name, "--at", at],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        stack.callback(_end, process)  # with all that it started, however this ends
        late = threading.Event()
        limit = threading.Timer(question.seconds, lambda: (late.set(), _end(process)))
        limit.daemon = True
        limit.start()
        stack.callback(limit.cancel)
        assert process.stdout is not None
        for text in process.stdout:
            if text.startswith("{"):
                lines.append({"name": question.name, **json.loads(text), **taken_with})
                print(json.dumps(lines[-1]), flush=True)
        code = process.wait()
    took_s = round(time.monotonic() - began)
    if late.is_set() or code:
        told = "did not finish" if late.is_set() else f"did not finish: exit {code}"
        print(json.dumps({"name": question.name, "question": told, "figure": took_s, "unit": "s",
                          "ratio": None, "aim": None, "met": None, **taken_with}), flush=True)  # fmt: skip
        what = "not kept: not all of it is answered"
    elif taken_with["given"]:
        what = "not kept: sizes were given"
    else:
        keep(question.name, [{**line, "took_s": took_s} for line in lines])
        what = "kept"
    progress(f"== {question.name}: {took_s} s, {what}")
    return not code and not late.is_set()


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
        **({"files": brokers.FILES} if question.has_broker else {}),
    }


def keep(name: str, lines: list[dict[str, Any]], results: Path = RESULTS) -> None:
    """Put the lines of a question in the place of those that were there of it."""
    before = results.read_text().splitlines() if results.exists() else []
    others = [text for text in before if json.loads(text)["name"] != name]
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text("".join(f"{text}\n" for text in [*others, *map(json.dumps, lines)]))


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
