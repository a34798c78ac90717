"""One backtest: from rows to firings, pending keys and near misses, as DataFrames."""

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
    from pyspark.sql import DataFrame, SparkSession

# Of the fold, and of its sort; a key with more than that has them all in one task.
EVENTS_A_TASK: Final = 50_000
_NOTE: Final = (
    "label string, why string, term string, count long, attribute string, value string, text string"
)


@dataclass(frozen=True)
class Log:
    """What a backtest reads. rows: of `rows.SCHEMA`, from `since_ms` of the question on.

    events: how many rows, of topics how many records. end_ms: up to there timers run, and all rows are
    stamped before it. ascending: no partition's timestamps go backwards.
    """

    rows: DataFrame
    end_ms: int
    ascending: bool
    events: int

    @staticmethod
    def of(rows: DataFrame, until_ms: int | None = None) -> Log:
        """The log of rows, which are looked at once for it: without their data."""
        from pyspark.sql import functions as f

        rows = rows.where(f.col("kind") == "event")
        if until_ms is not None:
            rows = rows.where(f.col("appended_ms") < until_ms)
        found = rows.agg(
            f.count("*").alias("events"),
            f.max("appended_ms").alias("last_ms"),
            # an unknown type counts as the producers'
            f.min(f.coalesce("timestamp_type", f.lit(0))).alias("least_type"),
        ).collect()[0]
        if not found.events:
            return Log(rows, until_ms or 0, True, 0)
        end_ms = found.last_ms + 1 if until_ms is None else until_ms
        return Log(rows, end_ms, found.least_type == 1, found.events)

    @staticmethod
    def of_records(raw: DataFrame, bus: str, until_ms: int | None = None) -> Log:
        """The log of a bus's topics (`Bus.batch`); their timestamps alone are read for it.

        What comes meanwhile, and is stamped later, is left out. Which topics have the brokers' timestamps is
        not asked: what holds for others holds for them.
        """
        from pyspark.sql import functions as f

        stamp = f.unix_millis("timestamp")
        found = raw.agg(f.max(stamp).alias("last_ms"), f.count("*").alias("records")).collect()[0]
        if until_ms is None:
            until_ms = 0 if found.last_ms is None else found.last_ms + 1
        return Log(rows_of(raw.where(stamp < until_ms), bus), until_ms, False, found.records)


class Backtest:
    """The answer to a question, as DataFrames; the work is done when they are first read.

    It is kept on the executors' disks, so that reading several of them does not do it again; `close` lets go.
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
            # The key's timers run although no event of it may come.
            matches = matches.unionByName(self._opening(key))
        ordered = in_order(matches, self._tasks(), ascending=self.log.ascending)
        return results_of(self.question, self.log.end_ms, ordered).persist(StorageLevel.DISK_ONLY)

    def _tasks(self) -> int:
        # Adaptive execution does not join the small partitions of what is kept, and a task costs a tenth of a
        # second or so: they are made of a good size, which is sorted in memory.
        return max(self._spark.sparkContext.defaultParallelism, -(-self.log.events // EVENTS_A_TASK))

    def _opening(self, key: str) -> DataFrame:
        from pyspark.sql import functions as f

        given = {"key": f.lit(key), "stamp_ms": f.lit(self.question.since_ms)}
        columns = (each.split() for each in MATCHED.split(", "))
        return self._spark.range(1).select(
            *(given.get(name, f.lit(None)).cast(kind).alias(name) for name, kind in columns)
        )

    @cached_property
    def firings(self) -> DataFrame:
        """(key, outcome, fired_ms, timer_ms, events, missing); a row for each firing.

        fired_ms: when it was decided. timer_ms: the due time that brought it; null where an event did.
        """
        columns = ("key", "outcome", "fired_ms", "timer_ms", "events", "missing")
        return self.results.where("kind = 'firing'").select(*columns)

    @cached_property
    def pending(self) -> DataFrame:
        """(key, events, missing, waiting, since_ms, expires_ms, due_ms) of the keys half met at the end.

        The columns are those of conditions.half_met.HalfMet; events are its parts.
        """
        columns = ("key", "events", "missing", "waiting", "since_ms", "expires_ms", "due_ms")
        return self.results.where("kind = 'pending'").select(*columns)

    @cached_property
    def near_misses(self) -> DataFrame:
        """(label, why, term, count, attribute, value, text, event) of the first of each matcher and reason.

        count: how many there were of the reason in all. label: null where an event could not be matched at
        all. text: the reason in words.
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
        """Let go of what is kept on disks."""
        if "results" in self.__dict__:
            self.results.unpersist()
