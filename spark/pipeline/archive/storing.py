"""Writing rows into a folder of the archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .files import Files
from .layout import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def store(rows: DataFrame, files: Files, folder: Folder) -> None:
    """Write these rows as a folder of the archive; it counts once this returns, and not before.

    One file for each kind, date and type of ordinary size: rows meet by these in a shuffle, whose small
    partitions adaptive execution joins and whose large ones it splits (64 MB,
    `spark.sql.adaptive.advisoryPartitionSizeInBytes`). Without it a large type is one task's.
    """
    from pyspark.sql import functions as f

    by = ("kind", "date", "type_key")
    (
        rows.hint("rebalance", *(f.col(name) for name in by))
        .sortWithinPartitions(*by, "topic", "partition", "offset")
        .write.partitionBy(*by)
        .mode("error")  # nobody else writes there, so there is nothing
        # The marker decides what counts, whatever the session is set to.
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "true")
        .parquet(files.path(folder.name))
    )
