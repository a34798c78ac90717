"""The backtest job: the firings that a condition, or a change of it, would have made for past events."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from interlock.conditions import ConditionError
from interlock.conditions.explanation.explain import moment_of
from interlock.conditions.nodes.duration import duration_ms
from interlock.events.errors import InterlockError
from interlock.spark.pipeline import PipelineError
from interlock.spark.pipeline.archive.files import Files
from interlock.spark.pipeline.archive.layout import read
from interlock.spark.pipeline.backtest.backtest import Backtest, Log
from interlock.spark.pipeline.backtest.comparison import compared
from interlock.spark.pipeline.backtest.question import Question, condition_of
from interlock.spark.pipeline.backtest.summary import ConditionFigures, Summary, changes_of
from interlock.spark.pipeline.progress import logged_progress
from interlock.spark.pipeline.session import job_session
from interlock.spark.pipeline.source import connected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The most rows, and bytes, of a batch that Spark passes to Python.
_BATCH_ROWS: Final = 2_000
_BATCH_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True)
class BacktestOptions:
    """What to do. archive: None to read the topics. compare: a second question about the same events.
    until_ms: not included; None: the end of the events."""

    question: Question
    compare: Question | None
    archive: str | None
    until_ms: int | None
    output: str | None
    overwrite: bool
    as_json: bool


def parse(arguments: Sequence[str]) -> BacktestOptions:
    """Parses the command line. Raises ConditionError for a condition that does not fit the other options."""
    parser = argparse.ArgumentParser(prog="backtest", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--condition", metavar="TEXT", help="a condition as text, as str(condition) prints it"
    )
    parser.add_argument("--condition-from", metavar="MODULE:NAME", help="a condition in Python")
    parser.add_argument("--compare", metavar="TEXT", help="another condition to compare with, as text")
    parser.add_argument("--compare-from", metavar="MODULE:NAME", help="another condition in Python")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--archive", metavar="PATH", help="folder of an archive")
    source.add_argument("--kafka", action="store_true", help="read the bus's topics")
    parser.add_argument("--since", metavar="TIME", help="ISO 8601; default: from the first event")
    parser.add_argument(
        "--until", metavar="TIME", help="ISO 8601, not included; timers run up to it; default: the last event"
    )
    parser.add_argument(
        "--key", action="append", metavar="KEY", help="a wait for this key; repeat it for a composite key"
    )
    parser.add_argument("--once", action="store_true", help="a wait, which ends with its first firing")
    parser.add_argument("--ttl", default="30d", metavar="DURATION", help="how long the bus keeps an idle key")
    parser.add_argument(
        "--near-misses", type=int, default=5, metavar="N", help="how many to keep per reason; 0: none"
    )
    parser.add_argument("--output", metavar="PATH", help="Parquet: firings, pending, near_misses, changes")
    parser.add_argument("--overwrite", action="store_true", help="replace the tables in --output")
    parser.add_argument("--output-format", choices=("human", "json"), default="human", help="summary format")
    given = parser.parse_args(arguments)
    if given.near_misses < 0:
        parser.error("--near-misses: give 0 or more")
    since_ms = None if given.since is None else _moment("--since", given.since)
    until_ms = None if given.until is None else _moment("--until", given.until)
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        parser.error("--since must be before --until")
    key = None if given.key is None else given.key[0] if len(given.key) == 1 else given.key

    def question(text: str | None, path: str | None, option: str) -> Question:
        return Question.of(
            condition_of(text, path, option),
            key,
            since_ms=since_ms,
            ttl_ms=duration_ms("--ttl", given.ttl),
            near_misses=given.near_misses,
            once=given.once,
        )

    compare = given.compare is not None or given.compare_from is not None
    return BacktestOptions(
        question(given.condition, given.condition_from, "condition"),
        question(given.compare, given.compare_from, "compare") if compare else None,
        given.archive,
        until_ms,
        given.output,
        given.overwrite,
        given.output_format == "json",
    )


def _moment(option: str, text: str) -> int:
    # Its messages begin with this and the value: "--since ('soon') is not an ISO 8601 time".
    return moment_of(f"{option} (", text)


@contextmanager
def log_of(spark: SparkSession, options: BacktestOptions) -> Iterator[Log]:
    """The events to evaluate; valid inside the block."""
    since_ms = options.question.since_ms
    if options.archive is not None:
        rows = read(spark, options.archive, since_ms=since_ms, until_ms=options.until_ms)
        with logged_progress(spark, "reading timestamps of the archive"):
            log = Log.of(rows, options.until_ms)
        yield log
        return
    with connected(spark) as bus:
        topics = bus.sources(spark)
        raw = bus.batch(spark, topics, since_ms=since_ms, until_ms=options.until_ms)
        with logged_progress(spark, f"reading timestamps of {', '.join(topics)}"):
            log = Log.of_records(raw, bus.name, options.until_ms, bus.cloudevents(spark), bus.proof)
        yield log


def run(spark: SparkSession, options: BacktestOptions) -> Summary:
    """Runs the backtest and writes its tables. Raises PipelineError if `output` already has some."""
    began = time.monotonic()
    if options.output is not None and not options.overwrite:
        files = Files(spark, options.output)
        if files.folders() or files.files():
            raise PipelineError(
                f"--output {options.output!r} is not empty: name another folder, or give --overwrite"
            )
    with log_of(spark, options) as log:
        backtest = Backtest(spark, options.question, log)
        other = None if options.compare is None else Backtest(spark, options.compare, log)
        try:
            with logged_progress(spark, f"backtest of {options.question.condition}"):
                figures = ConditionFigures.of(backtest)
            after, changes = None, None
            if other is not None:
                with logged_progress(spark, f"backtest of {other.question.condition}"):
                    after = ConditionFigures.of(other)
                difference = compared(backtest.firings, other.firings)
                with logged_progress(spark, "comparing"):
                    changes = changes_of(difference)
                _write(options, "changes", difference)
            elif options.output is not None and options.overwrite:
                Files(spark, options.output).remove("changes")  # of another run's conditions
            for name in ("firings", "pending", "near_misses"):
                _write(options, name, getattr(backtest, name))
        finally:
            backtest.close()
            if other is not None:
                other.close()
        return Summary(
            log.events,
            options.question.since_ms,
            log.end_ms,
            options.until_ms is not None,
            log.ascending,
            figures,
            after,
            changes,
            time.monotonic() - began,
        )


def _write(options: BacktestOptions, name: str, table: DataFrame) -> None:
    if options.output is not None:
        path = f"{options.output.rstrip('/')}/{name}"
        with logged_progress(table.sparkSession, f"writing {path}"):
            table.write.mode("overwrite" if options.overwrite else "errorifexists").parquet(path)


def configure(spark: SparkSession) -> None:
    """Limits the memory of Python processes, whatever the size of events."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", _BATCH_ROWS)
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", _BATCH_BYTES)


def main(arguments: Sequence[str]) -> None:
    try:
        options = parse(arguments)
        with job_session("backtest") as spark:
            configure(spark)
            summary = run(spark, options)
    except ConditionError as error:
        sys.stderr.write(f"backtest: {error}\n")
        sys.exit(2)
    except InterlockError as error:
        sys.exit(f"backtest: {error}")
    sys.stdout.write(f"{json.dumps(summary.to_json()) if options.as_json else summary}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
