"""The tables of the report: writes each as Parquet into a folder, and keeps the first rows for the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..progress import logged_progress
from . import latencies, producers, registrations
from .figures import Figures, Table
from .firings import firings, unreadable
from .formats import LAST_MS, kind
from .unwaited import unwaited, without_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SHOWN: Final = 50  # most rows of a table on the page
DAYS: Final = 60  # days of the volume on the page: the latest
# The steps of the time axis: the smallest of which fewer than COLUMNS fit between first and last event.
STEPS_MS: Final = tuple(minutes * 60_000 for minutes in (1, 5, 15, 60, 180))
COLUMNS: Final = 72
LACKING: Final = 400  # most pairs of a wait and a label that it lacked, on the page
TYPES: Final = 5  # types of the volume with their own column: more colours are hard to distinguish


@dataclass(frozen=True)
class Sources:
    """The rows of the archive that a report reads, with the columns of docs/use/pipeline.md.

    events: of the range. actions: of the range and later, for later acknowledgements. subscriptions: all,
    since earlier registrations are in force in the range.
    """

    events: DataFrame
    actions: DataFrame
    subscriptions: DataFrame


class Tables:
    """Writes tables into a folder; replaces tables of the same name."""

    def __init__(self, spark: SparkSession, output: str) -> None:
        self._spark = spark
        self._output = output.rstrip("/")
        self.shown: dict[str, Table] = {}

    def write(self, name: str, table: DataFrame) -> DataFrame:
        """Writes a table. Returns it as read from its folder, so that later steps do not compute it again."""
        path = f"{self._output}/{name}"
        with logged_progress(self._spark, f"writing {path}"):
            table.write.mode("overwrite").parquet(path)
        return self._spark.read.schema(table.schema).parquet(path)

    def show(self, name: str, written: DataFrame, *order: Column, most: int = SHOWN) -> Table:
        """Keeps the first `most` rows for the page, and returns them."""
        rows = tuple(row.asDict(recursive=True) for row in written.orderBy(*order).limit(most).collect())
        total = len(rows) if len(rows) < most else written.count()
        table = self.shown[name] = Table(name, rows, total)
        return table


def make(
    spark: SparkSession, sources: Sources, output: str, since_ms: int | None, until_ms: int | None
) -> Figures:
    """Writes all tables into `output` (docs/use/pipeline.md "The report"). Returns the figures of the
    page."""
    from pyspark.sql import functions as f

    tables = Tables(spark, output)
    known = tables.write("registrations", registrations.incarnations(sources.subscriptions))
    conditions = tables.write(
        "conditions", registrations.conditions(registrations.in_force(known, since_ms, until_ms))
    )
    fired = tables.write("firings", firings(sources.actions, known, since_ms, until_ms))
    _firings(tables, fired, known)
    volume = tables.write("volume", producers.volume(sources.events))
    types = producers.types(volume)
    _events(tables, sources.events, volume, types, conditions)

    totals = types.agg(f.min("first_ms"), f.max("last_ms"), f.sum("events"), f.count("*")).collect()[0]
    step_ms = step_of(totals[0], totals[1])
    if step_ms is not None:
        _within_days(tables, sources.events, step_ms)
    nameless = without_type(conditions).count()
    unread = conditions.agg(f.count("*"), f.count(f.when(f.isnull("condition"), 1))).collect()[0]
    return Figures(
        since_ms=since_ms,
        until_ms=until_ms,
        first_ms=totals[0],
        last_ms=totals[1],
        events=totals[2] or 0,
        types=totals[3],
        step_ms=step_ms,
        without_type=nameless,
        overall=latencies.overall(fired).collect()[0].asDict(),
        conditions=unread[0],
        unreadable_conditions=unread[1],
        unreadable_actions=unreadable(sources.actions),
        tables=tables.shown,
    )


def _firings(tables: Tables, fired: DataFrame, known: DataFrame) -> None:
    from pyspark.sql import functions as f

    slowest = f.desc_nulls_last("event_to_firing_p99_ms")
    by_dag = tables.write("latencies_by_dag", latencies.by_dag(fired))
    place = ("waiter", "dag", "task")
    tables.show("latencies_by_dag", by_dag, slowest, *map(f.col, place))
    # Also conditions not in force in the range: the first firings in it may be of waits that ended before it.
    by_condition = latencies.by_condition(fired, registrations.conditions(known))
    by_condition = tables.write("latencies_by_condition", by_condition)
    tables.show("latencies_by_condition", by_condition, slowest, f.col("condition_id"))
    by_type = tables.write("latencies_by_type", latencies.by_type(fired))
    tables.show("latencies_by_type", by_type, slowest, f.col("type"))

    who = ("waiter", "dag", "run", "task", "map_index", "subscription", "firing_id", "outcome", "key")
    expired = fired.where("outcome = 'expired'").select(
        *who, "missing", "moment_ms", "acked_ms", "incomplete"
    )
    tables.show("expired", tables.write("expired", expired), f.desc("moment_ms"), f.col("firing_id"))
    lacking = tables.write("lacking", latencies.lacking(fired))
    tables.show("lacking", lacking, f.desc("expired"), *map(f.col, (*place, "label")), most=LACKING)
    tables.show("expired_by_dag", by_dag.where("expired > 0"), f.desc("expired"), *map(f.col, place))
    unacknowledged = tables.write("unacknowledged", fired.where("open").select(*who, "moment_ms"))
    tables.show("unacknowledged", unacknowledged, f.asc("moment_ms"), f.col("firing_id"))
    tables.show("unacknowledged_by_dag", by_dag.where("open > 0"), f.desc("open"), *map(f.col, place))


def _events(
    tables: Tables, events: DataFrame, volume: DataFrame, types: DataFrame, conditions: DataFrame
) -> None:
    from pyspark.sql import functions as f

    slow = tables.write("producers", producers.producers(events))
    tables.show("producers", slow, f.desc("delay_p99_ms"), f.col("source"), f.col("type"))
    nobody = tables.write("unwaited_types", unwaited(types, producers.sources(events), conditions))
    tables.show("unwaited_types", nobody, f.desc("events"), f.col("type"), f.col("topic"))
    top = tables.show("types", types, f.desc("events"), f.col("type"), f.col("topic"), most=TYPES)
    days = volume.groupBy("date").agg(f.sum("events").alias("events"), f.sum("bytes").alias("bytes"))
    latest = tables.show("days", days, f.desc("date"), most=DAYS)
    shown = volume.where(f.col("date").isin([row["date"] for row in latest.rows]))
    by_day = shown.groupBy("date", _series(top).alias("type")).agg(f.sum("events").alias("events"))
    tables.show("volume", by_day, f.asc("date"), f.desc("events"), most=DAYS * (TYPES + 1))


def _within_days(tables: Tables, events: DataFrame, step_ms: int) -> None:
    from pyspark.sql import functions as f

    kind = _series(tables.shown["types"]).alias("type")
    each = producers.by_time(events, step_ms).groupBy("start_ms", kind)
    counts = each.agg(f.sum("events").alias("events"))
    tables.show("moments", counts, f.asc("start_ms"), f.desc("events"), most=(COLUMNS + 1) * (TYPES + 1))


def _series(top: Table) -> Column:
    """The label of a row's type if it is one of the most frequent; null for all others."""
    from pyspark.sql import functions as f

    label = producers.label(f.col("type"), f.col("topic"))
    return f.when(label.isin([kind(row["type"], row["topic"]) for row in top.rows]), label)


def step_of(first_ms: int | None, last_ms: int | None) -> int | None:
    """The step of the time axis; None if a column for each day is fine enough, or there are no events.

    Also None if an event is after the year 9999, which a producer's timestamp may be: a moment there has no
    date, but rows have the last day.
    """
    if first_ms is None or last_ms is None or last_ms > LAST_MS:
        return None
    return next((step for step in STEPS_MS if (last_ms - first_ms) // step < COLUMNS), None)
