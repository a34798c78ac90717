"""The members of the engine's records and keys that the report reads.

This package must not import `engine`, so it has its own reader of the formats, limited to these members. A
test writes records with the engine and reads them here, so that a change of the format fails it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..source import READS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EVENT: Final = "STRUCT<type: STRING, source: STRING>"
_ORIGIN: Final = "STRUCT<timestamp_ms: BIGINT>"
ACTION: Final = (
    "v INT, subscription STRING, kind STRING, incarnation STRING, state STRING, "
    "firing STRUCT<id: STRING, outcome: STRING, key: STRING, fired_at: STRING, "
    f"events: MAP<STRING, ARRAY<{_EVENT}>>, origins: MAP<STRING, ARRAY<{_ORIGIN}>>, "
    "missing: ARRAY<STRING>, timer_ms: BIGINT, incomplete: BOOLEAN>"
)
# `condition` is an object; STRING gives its JSON text.
REGISTRATION: Final = "v INT, subscription STRING, kind STRING, incarnation STRING, condition STRING"
LEFTOVER: Final = "interlock_leftover"  # header of a null value that does not remove a registration


def actions_of(rows: DataFrame) -> DataFrame:
    """Rows of kind `action` with `record`, which is null for the removal of a firing and if unreadable.

    Columns: topic, key (text), offset, appended_ms, removed, readable, record.
    """
    from pyspark.sql import functions as f

    return rows.select(
        "topic",
        f.col("key").cast("string").alias("key"),
        "offset",
        "appended_ms",
        f.col("value").isNull().alias("removed"),
        f.from_json(f.col("value").cast("string"), ACTION).alias("record"),
    ).withColumn("readable", _readable("record.firing.id") & f.col("record.state").isin("fired", "acked"))


def registrations_of(rows: DataFrame) -> DataFrame:
    """Rows of kind `subscription` that begin or end a registration, without leases and other records.

    Columns: incarnation, appended_ms, removes, record (null where `removes`).
    """
    from pyspark.sql import functions as f

    key = f.col("key").cast("string")
    leftover = f.exists(f.coalesce("headers", f.array()), lambda header: header["key"] == LEFTOVER)
    return (
        rows.select(
            f.substring_index(key, ":", 1).alias("incarnation"),
            "appended_ms",
            f.col("value").isNull().alias("removes"),
            f.from_json(f.col("value").cast("string"), REGISTRATION).alias("record"),
            key.contains(":").alias("registers"),
            leftover.alias("leftover"),
        )
        .where("registers AND NOT leftover")
        .where(f.col("removes") | _readable("record.condition"))
        .drop("registers", "leftover")
    )


def waiter(subscription: Column, kind: Column) -> Column:
    """Who waits, from the subscription's name: struct of waiter, dag, run, task, map_index.

    One-shot: `deployment/dag/run/task`, with `/map_index` for a mapped task; a run id may contain slashes.
    Durable: `deployment/dispatch/dag`, `deployment/deliver/dag` and `deployment/asset/name`. A name of
    another form is in `dag` as a whole.
    """
    from pyspark.sql import functions as f

    parts = f.split(subscription, "/")
    size = f.size(parts)
    second = f.get(parts, f.lit(1))
    after = f.array_join(f.slice(parts, 3, f.greatest(size - 2, f.lit(0))), "/")
    last = f.element_at(parts, -1)
    mapped = (size >= 5) & last.rlike("^[0-9]+$")
    names = f.when(mapped, size - 1).otherwise(size)  # how many parts name the task
    task = f.element_at(parts, names)
    run = f.array_join(f.slice(parts, 3, f.greatest(names - 3, f.lit(0))), "/")
    nothing = f.lit(None).cast("string")
    durable = (kind == "durable") & (size >= 3)

    def named(word: str, dag: Column, run: Column = nothing, task: Column = nothing) -> Column:
        index = f.when(mapped, last.cast("int")) if task is not nothing else f.lit(None).cast("int")
        return f.struct(
            f.lit(word).alias("waiter"),
            dag.alias("dag"),
            run.alias("run"),
            task.alias("task"),
            index.alias("map_index"),
        )

    return (
        f.when(durable & (second == "dispatch"), named("dispatch", after))
        .when(durable & (second == "deliver"), named("deliver", after))
        .when(durable & (second == "asset"), named("asset watcher", after))
        .when((kind == "one-shot") & (size >= 4), named("wait", second, run, task))
        .otherwise(named("other", subscription))
    )


def _readable(member: str) -> Column:
    from pyspark.sql import functions as f

    # records of other versions are counted, not read
    return f.coalesce(f.col("record.v").isin(*READS) & f.col(member).isNotNull(), f.lit(False))
