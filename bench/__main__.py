"""`make bench`: asks the questions, each in a process of its own, and keeps what they answer.

    python -m bench [NAME or GROUP ...]
    python -m bench --list

A line is one JSON object: `name` of the question, then `question`, `figure`, `unit`, `ratio` to the baseline
of the same run, `aim` and `met`; with the commit and the versions that it was taken with. Lines go to stdout
and, of a question that was given no sizes, to `.build/bench/results.jsonl`, in the place of those before.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from confluent_kafka import libversion
from interlock.plugin.broker import LocalBroker
from interlock.plugin.broker.jars import KAFKA_VERSION

from .lines import progress
from .questions import QUESTIONS, Question

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / ".build" / "bench" / "results.jsonl"
# Of the brokers' files. In memory where the system has such a folder: how busy a disk is would be most of the
# difference between two runs, and is no part of any question.
FOLDER: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
FILES: Final = "in memory" if FOLDER else "on disk"
SIZES: Final = (
    "EVENTS",
    "SUBSCRIPTIONS",
    "KEYS",
    "RATE",
    "ENDED",
    "PARTITIONS",
    "CORES",
    "CONDITION",
    "HISTORY",
)
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
            print(f"{each.group:12} {each.name:14} {each.about}")
    elif given.ask:
        QUESTIONS[given.ask].ask(given.at)
    else:
        failed = [each.name for each in chosen(given.names, parser) if not _asked(each)]
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


def _asked(question: Question) -> bool:
    """Whether it was answered in its time, by a process that ended well."""
    progress(f"== {question.name}: {question.about} (at most {question.seconds} s)")
    began, taken_with = time.monotonic(), _taken_with(question)
    lines: list[dict[str, Any]] = []
    with ExitStack() as stack:
        at = ""
        if question.needs_broker:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=FOLDER))
            at = stack.enter_context(LocalBroker(Path(folder), report=progress)).bootstrap_servers
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
    if late.is_set() or code:
        told = "did not finish" if late.is_set() else f"did not finish: exit {code}"
        lines.append({"name": question.name, "question": told, "figure": round(time.monotonic() - began),
                      "unit": "s", "ratio": None, "aim": None, "met": None, **taken_with})  # fmt: skip
        print(json.dumps(lines[-1]), flush=True)
    if not taken_with["given"]:  # those of other sizes are not the question's
        took_s = round(time.monotonic() - began)
        keep(question.name, [{**line, "took_s": took_s} for line in lines])
    progress(f"== {question.name}: {time.monotonic() - began:.0f} s")
    return not code and not late.is_set()


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _taken_with(question: Question) -> dict[str, Any]:
    """What a figure depends on, beside the machine."""
    given = {name: os.environ[name] for name in SIZES if os.environ.get(name)}
    return {
        "commit": _commit(),
        "given": given,
        "versions": VERSIONS,
        "cores": os.cpu_count(),
        **({"files": FILES} if question.needs_broker else {}),
    }


def keep(name: str, lines: list[dict[str, Any]], results: Path = RESULTS) -> None:
    """Put the lines of a question in the place of those that were there of it."""
    before = results.read_text().splitlines() if results.exists() else []
    others = [text for text in before if json.loads(text)["name"] != name]
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text("".join(f"{text}\n" for text in [*others, *map(json.dumps, lines)]))


def _commit() -> str:
    """Of the checkout; with a + where it has changes."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or "unknown"


VERSIONS: Final = {
    "python": sys.version.split()[0],
    **{name: version(name) for name in PACKAGES},
    "librdkafka": libversion()[0],
    "kafka": KAFKA_VERSION,
}

if __name__ == "__main__":
    main()
