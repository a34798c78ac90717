"""Two conditions over the same events: which firings both make, which only one, and which at another time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def compared(before: DataFrame, after: DataFrame) -> DataFrame:
    """A row for each firing of `before`, of `after`, or of both; arguments: `Backtest.firings`.

    change: "same"; "moved", where key, outcome and events are the same and the time is not; "gone", only
    `before` makes it; "new", only `after`. key, outcome; fired_ms, timer_ms, events, missing of `before`, and
    after_ms, after_timer_ms, after_events, after_missing. Events are the same by source and id, whatever
    labels they have.
    """
    from pyspark.sql import functions as f

    one, other = _numbered(before), _numbered(after)
    joined = one.alias("b").join(
        other.alias("a"),
        [
            f.col("b.key").eqNullSafe(f.col("a.key")),  # null where events bring no key
            *(f.col(f"b.{name}") == f.col(f"a.{name}") for name in ("outcome", "same", "nth")),
        ],
        "full_outer",
    )
    there, now = f.col("b.nth").isNotNull(), f.col("a.nth").isNotNull()
    still = f.col("b.fired_ms") == f.col("a.fired_ms")
    change = (
        f.when(~now, "gone")
        .when(~there, "new")
        .when(still & f.col("b.timer_ms").eqNullSafe(f.col("a.timer_ms")), "same")
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
    """With `same`, the identities of the events, and `nth`: the how many-eth firing of the key with them."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    identities = f.array_sort(
        f.array_distinct(
            f.transform("events", lambda event: f.struct(event["source"].alias("s"), event["id"].alias("i")))
        )
    )
    # a repeat that came after the events seen were forgotten may fire with the same ones again
    alike = Window.partitionBy("key", "outcome", "same").orderBy("fired_ms", "timer_ms")
    return firings.withColumn("same", identities).withColumn("nth", f.row_number().over(alike))
