"""One backtest: computes firings, pending keys and near misses from rows, as DataFrames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from ..rows import rows_of
from .fold import results_of
from .matching import matches_of
from .order import in_order
from .question import Question
from .tables import MATCHED

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame, SparkSession

    from ....events.proof import Proof

# The number of tasks assumes that all events match; adaptive execution joins small ones. A task sorts some
# 50,000 matches in memory. All matches of one key are in one task, however many.
_EVENTS_A_TASK: Final = 50_000
_MOST_TASKS: Final = 10_000
_ADAPTIVE: Final = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",  # of persisted results too
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",  # else 1 MB each: a task costs 0.1 s
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "4m",
}
_NOTE: Final = (
    "label string, why string, term string, count long, attribute string, value string, text string"
)


@dataclass(frozen=True)
class Log:
    """What a backtest reads. rows: of `rows.SCHEMA`, from the question's `since_ms` on.

    events: the number of rows; of records, if read from topics. end_ms: timers run up to it; all rows have
    earlier timestamps. ascending: no partition's timestamps go backwards.
    """

    rows: DataFrame
    end_ms: int
    ascending: bool
    events: int

    @staticmethod
    def of(rows: DataFrame, until_ms: int | None = None) -> Log:
        """The log of these rows. Reads them once, without their data."""
        from pyspark.sql import functions as f

        rows = rows.where(f.col("kind") == "event")
        if until_ms is not None:
            rows = rows.where(f.col("appended_ms") < until_ms)
        found = rows.agg(
            f.count("*").alias("events"),
            f.max("appended_ms").alias("last_ms"),
            # an unknown timestamp type is taken as the producer's
            f.min(f.coalesce("timestamp_type", f.lit(0))).alias("least_type"),
        ).collect()[0]
        if not found.events:
            return Log(rows, until_ms or 0, True, 0)
        end_ms = found.last_ms + 1 if until_ms is None else until_ms
        return Log(rows, end_ms, found.least_type == 1, found.events)

    @staticmethod
    def of_records(
        raw: DataFrame,
        bus: str,
        until_ms: int | None = None,
        cloudevents: Collection[str] = (),
        proof: Proof | None = None,
    ) -> Log:
        """The log of a bus's topics (`BusTopics.batch`). Reads only their timestamps.

        cloudevents, proof: as for `rows_of`. Leaves out records with later timestamps that arrive meanwhile.
        """
        from pyspark.sql import functions as f

        stamp = f.unix_millis("timestamp")
        found = raw.agg(
            f.max(stamp).alias("last_ms"),
            f.min("timestampType").alias("least_type"),
            f.count("*").alias("records"),
        ).collect()[0]
        if until_ms is None:
            until_ms = 0 if found.last_ms is None else found.last_ms + 1
        rows = rows_of(raw.where(stamp < until_ms), bus, cloudevents, proof)
        return Log(rows, until_ms, found.least_type == 1, found.records)


class Backtest:
    """The answer to a question, as DataFrames, computed when one is first read.

    The results stay on the executors' disks until `close`, so that reading several DataFrames computes them
    once. Changes the session's settings of adaptive execution.
    """

    def __init__(self, spark: SparkSession, question: Question, log: Log) -> None:
        self.question, self.log = question, log
        self._spark = spark

    @cached_property
    def results(self) -> DataFrame:
        """Rows of RESULT."""
        from pyspark import StorageLevel

        matches = matches_of(self.question, self.log.rows)
        key = self.question.known_key
        if key is not None and self.question.runs_from_the_start:
            # The key's timers run even without an event.
            matches = matches.unionByName(self._first_row(key))
        self._set_number_of_tasks()
        ordered = in_order(matches, ascending=self.log.ascending)
        return results_of(self.question, self.log.end_ms, ordered).persist(StorageLevel.DISK_ONLY)

    def _set_number_of_tasks(self) -> None:
        tasks = min(-(-self.log.events // _EVENTS_A_TASK), _MOST_TASKS)
        tasks = max(tasks, self._spark.sparkContext.defaultParallelism)
        initial = {"spark.sql.adaptive.coalescePartitions.initialPartitionNum": str(tasks)}
        for name, value in {**_ADAPTIVE, **initial}.items():
            self._spark.conf.set(name, value)

    def _first_row(self, key: str) -> DataFrame:
        from pyspark.sql import functions as f

        given = {"key": f.lit(key), "stamp_ms": f.lit(self.question.since_ms)}
        columns = (each.split() for each in MATCHED.split(", "))
        return self._spark.range(1).select(
            *(given.get(name, f.lit(None)).cast(kind).alias(name) for name, kind in columns)
        )

    @cached_property
    def firings(self) -> DataFrame:
        """(key, outcome, fired_ms, timer_ms, events, missing); a row for each firing.

        fired_ms: when it was decided. timer_ms: the due time of the timer that caused it; null if an event
        did.
        """
        columns = ("key", "outcome", "fired_ms", "timer_ms", "events", "missing")
        found = self.results.where("kind = 'firing'").select(*columns)
        return found.orderBy("fired_ms", "key").limit(1) if self._ends_with_first_firing else found

    @property
    def _ends_with_first_firing(self) -> bool:
        """Whether the first firing of any key ends the wait. (The fold sees one key at a time.)"""
        return self.question.once and self.question.known_key is None

    @cached_property
    def pending(self) -> DataFrame:
        """(key, events, missing, waiting, since_ms, expires_ms, due_ms) of the keys that are half met at the
        end.

        The columns are the members of conditions.evaluate.half_met.HalfMet; events are its parts.
        """
        from pyspark.sql import functions as f

        columns = ("key", "events", "missing", "waiting", "since_ms", "expires_ms", "due_ms")
        found = self.results.where("kind = 'pending'").select(*columns)
        if self._ends_with_first_firing:  # nothing is pending after a wait has fired
            return found.join(self.firings.select("outcome"), f.lit(True), "left_anti")
        return found

    @cached_property
    def near_misses(self) -> DataFrame:
        """(label, why, term, count, attribute, value, text, event) of the first near misses of each reason.

        count: the total number for the matcher and reason. label: null if matching raised an error. text: the
        reason in words.
        """
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        reason = Window.partitionBy("label", "why", "term")
        place = ("event.appended_ms", "event.topic", "event.partition", "event.offset")
        event = f.col("events")[0].dropFields("label").alias("event")
        return (
            self.results.where("kind = 'miss'")
            .select(f.from_json("note", _NOTE).alias("note"), event)
            .select("note.*", "event")
            .withColumn("place", f.row_number().over(reason.orderBy(*place)))
            .withColumn("count", f.sum("count").over(reason))
            .where(f.col("place") <= self.question.near_misses)
            .drop("place")
        )

    def close(self) -> None:
        """Removes the results from the executors' disks."""
        if "results" in self.__dict__:
            self.results.unpersist()
