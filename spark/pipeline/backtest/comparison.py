"""Compares the firings of two conditions over the same events: the same, moved, or only of one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def compared(before: DataFrame, after: DataFrame) -> DataFrame:
    """A row for each firing in `before`, `after`, or both; both are `Backtest.firings`.

    Columns: change ("same"; "moved": same key, outcome and events, another time; "gone": only in `before`;
    "new": only in `after`), key, outcome; fired_ms, timer_ms, events, missing of `before`; after_ms,
    after_timer_ms, after_events, after_missing. Events are compared by source and id, not by label.
    """
    from pyspark.sql import functions as f

    one, other = _numbered(before), _numbered(after)
    joined = one.alias("b").join(
        other.alias("a"),
        [
            f.col("b.key").eqNullSafe(f.col("a.key")),  # null for events without a key
            *(f.col(f"b.{name}") == f.col(f"a.{name}") for name in ("outcome", "same", "nth")),
        ],
        "full_outer",
    )
    in_before, in_after = f.col("b.nth").isNotNull(), f.col("a.nth").isNotNull()
    same_time = f.col("b.fired_ms") == f.col("a.fired_ms")
    change = (
        f.when(~in_after, "gone")
        .when(~in_before, "new")
        .when(same_time & f.col("b.timer_ms").eqNullSafe(f.col("a.timer_ms")), "same")
        .otherwise("moved")
    )
    return joined.select(
        change.alias("change"),
        *(f.coalesce(f"b.{name}", f"a.{name}").alias(name) for name in ("key", "outcome")),
        *(f.col(f"b.{name}").alias(name) for name in ("fired_ms", "timer_ms", "events", "missing")),
        f.col("a.fired_ms").alias("after_ms"),
        *(f.col(f"a.{name}").alias(f"after_{name}") for name in ("timer_ms", "events", "missing")),
    )


def _numbered(firings: DataFrame) -> DataFrame:
    """Adds `same`, the identities of the events, and `nth`: its number among the key's firings with these."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    identities = f.array_sort(
        f.array_distinct(
            f.transform("events", lambda event: f.struct(event["source"].alias("s"), event["id"].alias("i")))
        )
    )
    # a repeated event may fire with the same events again, after the first ones were forgotten
    alike = Window.partitionBy("key", "outcome", "same").orderBy("fired_ms", "timer_ms")
    return firings.withColumn("same", identities).withColumn("nth", f.row_number().over(alike))
