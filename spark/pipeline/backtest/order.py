"""The order of a key's matches, and what is still to come: docs/use/pipeline.md "The order"."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def in_order(matches: DataFrame, *, ascending: bool) -> DataFrame:
    """Rows of MATCHED spread by key, each key's in its order, with `least_ms` of fold.py.

    ascending: no partition's timestamps go backwards, as where brokers
    set them. The keys of one task come one after the other; its rows are sorted on disk where they do not fit
    into memory.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    place = ("topic", "partition", "offset")
    spread = matches.repartition("key")  # without a number, which adaptive execution would keep to
    if ascending:
        return spread.withColumn("least_ms", f.col("stamp_ms")).sortWithinPartitions(
            "key", "stamp_ms", *place
        )
    start, here = Window.unboundedPreceding, Window.currentRow
    own = Window.partitionBy("key", "topic", "partition").orderBy("offset").rowsBetween(start, here)
    # From the end on: a frame that reaches to the end would be gone through anew for each row.
    latest_first = [f.desc(name) for name in ("order_ms", *place)]
    behind = Window.partitionBy("key").orderBy(*latest_first).rowsBetween(start, here)
    return (
        spread.withColumn("order_ms", f.max("stamp_ms").over(own))
        .withColumn("least_ms", f.min("stamp_ms").over(behind))
        .sortWithinPartitions("key", "order_ms", *place)
    )
