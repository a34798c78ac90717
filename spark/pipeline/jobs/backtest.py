"""The backtest job: the firings that a condition, or a change of it, would have made for past events."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from interlock.conditions import Condition, ConditionError
from interlock.conditions.explanation.explain import moment_of
from interlock.conditions.nodes.duration import duration_ms
from interlock.events.errors import InterlockError
from interlock.spark.pipeline import PipelineError
from interlock.spark.pipeline.archive.files import Files
from interlock.spark.pipeline.archive.layout import read
from interlock.spark.pipeline.backtest.backtest import Backtest, Log
from interlock.spark.pipeline.backtest.comparison import compared
from interlock.spark.pipeline.backtest.deliveries.figures import DeliveryFigures
from interlock.spark.pipeline.backtest.deliveries.sink import SinkQuestion, sink_in, sink_of
from interlock.spark.pipeline.backtest.deliveries.table import Deliveries
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
    until_ms: not included; None: the end of the events. sink, compare_sink: to which the firings of each
    question would go; None: not asked."""

    question: Question
    compare: Question | None
    archive: str | None
    until_ms: int | None
    output: str | None
    overwrite: bool
    as_json: bool
    sink: SinkQuestion | None = None
    compare_sink: SinkQuestion | None = None


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
    sink = parser.add_mutually_exclusive_group()
    sink.add_argument(
        "--deliver", metavar="JSON", help="a sink: dag_id, conn_id and other arguments of deliver_dag"
    )
    sink.add_argument(
        "--deliver-from", metavar="MODULE:NAME", help="a DAG made by deliver_dag, which has the condition too"
    )
    parser.add_argument(
        "--partitions", type=int, metavar="N", help='of the bus\'s topics, for a sink with order "partition"'
    )
    parser.add_argument(
        "--outage", metavar="DURATION", help="with a sink: what waits after the worst outage of this length"
    )
    parser.add_argument(
        "--answer-time", metavar="DURATION", help="with --outage: how long the sink takes to answer"
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
    has_sink = given.deliver is not None or given.deliver_from is not None
    for option, needs, is_there in (
        ("--partitions", "a sink: --deliver or --deliver-from", has_sink or given.partitions is None),
        ("--outage", "a sink: --deliver or --deliver-from", has_sink or given.outage is None),
        ("--answer-time", "--outage", given.outage is not None or given.answer_time is None),
    ):
        if not is_there:
            parser.error(f"{option} needs {needs}")
    if given.partitions is not None and given.partitions < 1:
        parser.error("--partitions: give 1 or more")
    if given.deliver_from is None:
        condition = condition_of(given.condition, given.condition_from, "condition")
        sink_json = None if given.deliver is None else sink_of(given.deliver, condition)
    elif given.condition is not None or given.condition_from is not None:
        parser.error("--deliver-from has the condition too: leave out --condition and --condition-from")
    else:
        condition, sink_json, sink_since_ms = sink_in(given.deliver_from)
        if since_ms is None:
            since_ms = sink_since_ms
            if since_ms is not None and until_ms is not None and since_ms >= until_ms:
                parser.error("--until is not after the DAG's since: give --since to look at earlier events")

    def question(condition: Condition) -> Question:
        return Question.of(
            condition,
            key,
            since_ms=since_ms,
            ttl_ms=duration_ms("--ttl", given.ttl),
            near_misses=given.near_misses,
            once=given.once,
        )

    def sink_question(asked: Question | None) -> SinkQuestion | None:
        if sink_json is None or asked is None:
            return None
        outage_ms = None if given.outage is None else duration_ms("--outage", given.outage)
        answer_ms = None if given.answer_time is None else duration_ms("--answer-time", given.answer_time)
        return SinkQuestion(asked, sink_json, given.partitions, outage_ms, answer_ms)

    asked, other = question(condition), None
    if given.compare is not None or given.compare_from is not None:
        other = question(condition_of(given.compare, given.compare_from, "compare"))
    return BacktestOptions(
        asked,
        other,
        given.archive,
        until_ms,
        given.output,
        given.overwrite,
        given.output_format == "json",
        sink_question(asked),
        sink_question(other),
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
        if options.output is not None and options.overwrite:
            for name in ("changes", "deliveries", "deliveries_compared"):  # of another run's options
                Files(spark, options.output).remove(name)
        backtest = Backtest(spark, options.question, log)
        other = None if options.compare is None else Backtest(spark, options.compare, log)
        try:
            figures = _figures(spark, backtest, options.sink, options, "deliveries")
            after, changes = None, None
            if other is not None:
                after = _figures(spark, other, options.compare_sink, options, "deliveries_compared")
                difference = compared(backtest.firings, other.firings)
                with logged_progress(spark, "comparing"):
                    changes = changes_of(difference)
                _write(options, "changes", difference)
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


def _figures(
    spark: SparkSession, backtest: Backtest, sink: SinkQuestion | None, options: BacktestOptions, table: str
) -> ConditionFigures:
    """The figures of a backtest. With a sink, writes the table of its deliveries."""
    with logged_progress(spark, f"backtest of {backtest.question.condition}"):
        figures = ConditionFigures.of(backtest)
    if sink is None:
        return figures
    deliveries = Deliveries(backtest, sink)
    try:
        with logged_progress(spark, f"deliveries to {sink.record.subscription}"):
            found = DeliveryFigures.of(deliveries)
        _write(options, table, deliveries.rows)
    finally:
        deliveries.close()
    return replace(figures, deliveries=found)


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
