"""Delays of producers, from an event's own time to the append of its record; and the volume of events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....events.plain import TYPE as PLAIN
from .latencies import percentiles

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def producers(events: DataFrame) -> DataFrame:
    """One row for each source and type in rows of kind `event`: events, ahead, and percentiles of the delay.

    Leaves out events without `time`, and plain records, whose time is that of their record. ahead: events
    with a time after their append, from a producer whose clock is fast; their delay is negative.
    """
    from pyspark.sql import functions as f

    delay = f.col("appended_ms") - f.floor(f.col("time_us") / 1000)
    return (
        events.where((f.col("type") != PLAIN) & f.col("time_us").isNotNull())
        .select("source", "type", delay.alias("delay_ms"))
        .groupBy("source", "type")
        .agg(
            f.count("*").alias("events"),
            f.count(f.when(f.col("delay_ms") < 0, True)).alias("ahead"),
            *percentiles("delay", f.col("delay_ms")),
        )
        .drop("delay_count")
    )


def topic_of(type_: Column, source: Column) -> Column:
    """The topic of a plain record, all of which have one type; null for CloudEvents."""
    from pyspark.sql import functions as f

    return f.when(type_ == PLAIN, source)


def label(type_: Column, topic: Column) -> Column:
    """A type for people, as `formats.kind`: for plain records with their topic."""
    from pyspark.sql import functions as f

    return f.coalesce(f.concat(f.lit("topic "), topic), type_)


def sources(events: DataFrame) -> DataFrame:
    """The distinct (type, source)."""
    return events.select("type", "source").distinct()


def by_time(events: DataFrame, step_ms: int) -> DataFrame:
    """One row for each interval of `step_ms` and type: start_ms, type, topic, events."""
    from pyspark.sql import functions as f

    start = f.floor(f.col("appended_ms") / step_ms) * step_ms
    return (
        events.withColumn("topic", topic_of(f.col("type"), f.col("source")))
        .groupBy(start.cast("long").alias("start_ms"), "type", "topic")
        .agg(f.count("*").alias("events"))
    )


def volume(events: DataFrame) -> DataFrame:
    """One row for each day (UTC, of the append), type and topic: events, bytes of data, first_ms, last_ms."""
    from pyspark.sql import functions as f

    events = events.withColumn("topic", topic_of(f.col("type"), f.col("source")))
    return events.groupBy("date", "type", "topic").agg(
        f.count("*").alias("events"),
        f.sum(f.coalesce(f.octet_length("data"), f.lit(0))).alias("bytes"),
        f.min("appended_ms").alias("first_ms"),
        f.max("appended_ms").alias("last_ms"),
    )


def types(volume: DataFrame) -> DataFrame:
    """One row for each type and topic in a `volume`: events, first_ms, last_ms."""
    from pyspark.sql import functions as f

    return volume.groupBy("type", "topic").agg(
        f.sum("events").alias("events"),
        f.min("first_ms").alias("first_ms"),
        f.max("last_ms").alias("last_ms"),
    )
