"""The order of a key's matches: docs/use/pipeline.md "The order"."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def in_order(matches: DataFrame, *, ascending: bool) -> DataFrame:
    """Rows of MATCHED partitioned by key and ordered within each key, with `least_ms` of fold.py.

    ascending: no partition's timestamps go backwards, as when brokers set them. A task's rows are grouped by
    key, and sorted on disk if they do not fit into memory.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    place = ("topic", "partition", "offset")
    spread = matches.repartition("key")  # without a number: adaptive execution would not change it
    if ascending:
        return spread.withColumn("least_ms", f.col("stamp_ms")).sortWithinPartitions(
            "key", "stamp_ms", *place
        )
    start, here = Window.unboundedPreceding, Window.currentRow
    own = Window.partitionBy("key", "topic", "partition").orderBy("offset").rowsBetween(start, here)
    # Backwards: a frame up to the end would be computed again for each row.
    latest_first = [f.desc(name) for name in ("order_ms", *place)]
    behind = Window.partitionBy("key").orderBy(*latest_first).rowsBetween(start, here)
    return (
        spread.withColumn("order_ms", f.max("stamp_ms").over(own))
        .withColumn("least_ms", f.min("stamp_ms").over(behind))
        .sortWithinPartitions("key", "order_ms", *place)
    )
