"""Firings: one row for each, with the latencies from event to firing and from firing to resumption.

event -> firing: from the deciding moment to the append of the firing. The deciding moment is the latest of:
the append of its last event, the registration (which looks back for earlier events), and the due time of the
timer that caused it. firing -> resume: to the append of its acknowledgement, which the resumed task writes
(ADR 5), or the dispatcher once the run is created. All are broker times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....conditions.recipes.fail_on import PREFIX as FAIL_ON
from .producers import topic_of
from .records import actions_of, waiter

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def firings(
    actions: DataFrame, incarnations: DataFrame, since_ms: int | None, until_ms: int | None
) -> DataFrame:
    """The firings of the range, from rows of kind `action`; their acknowledgements may be later.

    Columns: waiter, dag, run, task, map_index, subscription, incarnation, condition_id, firing_id, outcome
    (met, fail_on, expired), key, missing, types (of its events: type, topic, last_ms), moment_ms (of the
    firing), acked_ms, open (neither acknowledged nor removed), by_timer, incomplete, decided_by and
    decided_topic (type of the last event, and topic if it is a plain record; null if a timer or the
    registration came later), event_to_firing_ms, firing_to_resume_ms.

    A latency is null if the archive lacks its start: the record `fired`, compacted away before it was
    archived, or the registration of a one-shot wait.
    """
    from pyspark.sql import functions as f

    found = _one_row_each(actions)
    if since_ms is not None:
        found = found.where(f.col("moment_ms") >= since_ms)
    if until_ms is not None:
        found = found.where(f.col("moment_ms") < until_ms)
    known = incarnations.select("incarnation", "condition_id", "registered")
    return _with_latencies(found.join(known, "incarnation", "left"))


def unreadable(actions: DataFrame) -> int:
    """How many records of kind `action` are damaged or of a version that this one cannot read."""
    return int(actions_of(actions).where("NOT removed AND NOT readable").count())


def _one_row_each(actions: DataFrame) -> DataFrame:
    """One row per firing, from its records `fired` and `acked`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    record, firing = f.col("record"), f.col("record.firing")
    each = (
        actions_of(actions)
        .where("removed OR readable")
        # The shuffle then moves less: of the events only the time of the last one of each type.
        .select(
            "topic",
            "key",
            "offset",
            "appended_ms",
            record["subscription"].alias("subscription"),
            f.coalesce(record["kind"], f.lit("one-shot")).alias("kind"),
            record["incarnation"].alias("incarnation"),
            record["state"].alias("state"),
            firing["id"].alias("firing_id"),
            f.struct(
                _outcome(firing).alias("outcome"),
                firing["key"].alias("key"),
                firing["fired_at"].alias("fired_at"),
                firing["missing"].alias("missing"),
                firing["timer_ms"].alias("timer_ms"),
                f.coalesce(firing["incomplete"], f.lit(False)).alias("incomplete"),
                _types(firing).alias("types"),
            ).alias("firing"),
        )
    )
    # The last record of each key, which compaction would keep, decides what is still open.
    last = Window.partitionBy("topic", "key")
    state = f.max_by(f.struct("state", "firing_id"), f.struct("appended_ms", "offset"))
    fired, acked = f.col("state") == "fired", f.col("state") == "acked"
    return (
        each.withColumn("last", state.over(last))
        .where("state IS NOT NULL")
        .groupBy("topic", "key", "subscription", "kind", "incarnation", "firing_id")
        .agg(
            f.min(f.when(fired, f.col("appended_ms"))).alias("fired_ms"),
            f.min(f.when(acked, f.col("appended_ms"))).alias("acked_ms"),
            f.first("firing").alias("firing"),
            f.first("last").alias("last"),
        )
        .withColumn(
            "open", (f.col("last.state") == "fired") & (f.col("last.firing_id") == f.col("firing_id"))
        )
        .withColumn("open", f.coalesce("open", f.lit(False)))
        .withColumn(
            "moment_ms",
            f.coalesce("fired_ms", f.expr("unix_millis(try_to_timestamp(firing.fired_at))"), "acked_ms"),
        )
        .drop("key", "topic", "last")
    )


def _with_latencies(found: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    fired, timer = f.col("fired_ms"), f.col("firing.timer_ms")
    last = f.array_max(f.col("firing.types.last_ms"))
    registered = f.array_max(f.filter("registered", lambda at: at <= f.col("fired_ms")))
    start_known = f.col("registered").isNotNull() | (f.col("kind") == "durable")
    # greatest() ignores nulls
    began = f.when(last.isNotNull() | timer.isNotNull(), f.greatest(last, registered, timer))
    by_event = timer.isNull() & (last == began)
    latest = f.filter("firing.types", lambda each: each["last_ms"] == last)
    timed = found.select(
        "subscription",
        waiter(f.col("subscription"), f.col("kind")).alias("waiter"),
        "incarnation",
        "condition_id",
        "firing_id",
        "firing.outcome",
        "firing.key",
        "firing.missing",
        "firing.types",
        "moment_ms",
        "acked_ms",
        "open",
        timer.isNotNull().alias("by_timer"),
        "firing.incomplete",
        f.when(start_known & by_event, f.get(latest, f.lit(0))["type"]).alias("decided_by"),
        f.when(start_known & by_event, f.get(latest, f.lit(0))["topic"]).alias("decided_topic"),
        f.when(start_known, fired - began).alias("event_to_firing_ms"),
        (f.col("acked_ms") - fired).alias("firing_to_resume_ms"),
    )
    return timed.select("waiter.*", *(name for name in timed.columns if name != "waiter"))


def _outcome(firing: Column) -> Column:
    """The outcome; `fail_on` if that was met: the sensor, too, recognises it by the labels of the events."""
    from pyspark.sql import functions as f

    failing = f.exists(f.map_keys(firing["events"]), lambda label: label.startswith(FAIL_ON))
    return f.when(failing & (firing["outcome"] == "met"), "fail_on").otherwise(firing["outcome"])


def _types(firing: Column) -> Column:
    """Array of (type, topic, last_ms) of the events: the append time of the last one of each type.

    type: null for an event that was too large for the firing, which has only a reference to it. topic: null
    for all but plain records, which share one type.
    """
    from pyspark.sql import functions as f

    def with_times(label: Column) -> Column:
        return f.zip_with(
            firing["events"][label],
            firing["origins"][label],
            lambda sent, origin: f.struct(
                f.struct(
                    sent["type"].alias("type"), topic_of(sent["type"], sent["source"]).alias("topic")
                ).alias("kind"),
                origin["timestamp_ms"].alias("last_ms"),
            ),
        )

    parts = f.flatten(f.transform(f.map_keys(firing["events"]), with_times))
    return f.transform(
        f.array_distinct(parts["kind"]),
        lambda kind: f.struct(
            kind["type"].alias("type"),
            kind["topic"].alias("topic"),
            f.array_max(f.filter(parts, lambda part: part["kind"].eqNullSafe(kind))["last_ms"]).alias(
                "last_ms"
            ),
        ),
    )
