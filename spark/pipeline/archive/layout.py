"""The folders of an archive, and which of them are valid: each record is in exactly one valid folder.

`batch=FIRST.RUN` holds the records of one batch, `batch=FIRST-LAST.RUN` those of several, as one run wrote
them. RUN differs for each run of a job, so two runs never write into the same folder.

1. A folder is valid when it has the marker `_SUCCESS`, which is written last.
2. Of two folders with the same batches, the one of the earlier run is valid.
3. A folder whose batches are all in another valid one is not valid.

A valid folder is never written again: a crash leaves a folder without a marker, and a repeat writes another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .. import PipelineError
from ..rows import KINDS, SCHEMA, day_of
from ..session import WHOLE_FILES
from .files import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MARKER: Final = "_SUCCESS"
IDENTITY: Final = "_archive.json"  # names the archive; `checkpoint.check_pair` writes it
TOPICS: Final = "_topics.json"  # {topic: id} of the bus's own topics; `checkpoint.check_topics` writes it
_NAME: Final = re.compile(r"batch=(\d{1,18})(?:-(\d{1,18}))?(?:\.(\d{6,}-[0-9a-f]{8}))?")


@dataclass(frozen=True)
class Folder:
    """A folder of the batches `first` to `last`, both included, written by `run`."""

    first: int
    last: int
    run: str

    @property
    def name(self) -> str:
        through = "" if self.first == self.last else f"-{self.last}"
        return f"batch={self.first}{through}{self.run and '.'}{self.run}"

    def holds(self, other: Folder) -> bool:
        return self.first <= other.first and other.last <= self.last


def folder_named(name: str) -> Folder | None:
    """The folder of this name; None if it does not hold batches."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    first = int(match[1])
    return Folder(first, first if match[2] is None else int(match[2]), match[3] or "")


def valid_folders(complete: Iterable[Folder]) -> tuple[Folder, ...]:
    """The valid ones among folders with a marker, by batch. Raises PipelineError if two overlap in part."""
    found: list[Folder] = []
    for folder in sorted(complete, key=lambda each: (each.first, -each.last, each.run)):
        if found and found[-1].holds(folder):
            continue
        if found and folder.first <= found[-1].last:
            raise PipelineError(
                f"{found[-1].name} and {folder.name} share some batches, and each has batches that the other"
                " lacks: records would be read twice. Two concurrent compactions with different --range cause"
                " that; move away the folder whose batches other folders hold too"
            )
        found.append(folder)
    return tuple(found)


def folders(files: Files) -> tuple[tuple[Folder, ...], tuple[Folder, ...]]:
    """The folders of batches: those with a marker, and those without."""
    complete: list[Folder] = []
    rest: list[Folder] = []
    # List names before looking for markers: a folder that gets its marker in between is among the names, or
    # the folders that it replaces are still valid.
    for name in sorted(files.folders()):
        if (folder := folder_named(name)) is not None:
            (complete if _is_complete(files, folder) else rest).append(folder)
    return tuple(complete), tuple(rest)


def completed_ms(files: Files, folder: Folder) -> int | None:
    """When a folder got its marker; None without one."""
    return files.changed_ms(f"{folder.name}/{MARKER}")


def _is_complete(files: Files, folder: Folder) -> bool:
    return completed_ms(files, folder) is not None


def check_exists(files: Files) -> None:
    """Raises PipelineError if the archive does not exist."""
    if files.changed_ms(IDENTITY) is None and not any(folder_named(name) for name in files.folders()):
        raise PipelineError(f"no archive in {files.root}: check the path; the archive job creates one")


def folder_of_batch(files: Files, number: int) -> str | None:
    """The name of a folder with a marker that holds this batch; None if there is none."""
    for name in sorted(files.folders()):
        folder = folder_named(name)
        if folder is not None and folder.first <= number <= folder.last and _is_complete(files, folder):
            return name
    return None


def read(
    spark: SparkSession,
    path: str,
    kinds: Sequence[str] = ("event",),
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> DataFrame:
    """The rows (`rows.SCHEMA`) of an archive, each once, also while it is written and compacted.

    kinds: of `rows.KINDS`. since_ms, until_ms: rows appended at or after `since_ms` and before `until_ms`;
    files of other days and kinds are not read. Contains what is archived at the time of the call. Use it
    within an hour: after that a compaction may remove replaced folders. Raises PipelineError without an
    archive.
    """
    from pyspark.sql import functions as f

    if wrong := sorted(set(kinds) - set(KINDS)):
        raise PipelineError(f"unknown kinds {wrong}: choose among {', '.join(KINDS)}")
    files = Files(spark, path)
    check_exists(files)
    complete, _ = folders(files)
    found = read_folders(spark, files, valid_folders(complete)).where(f.col("kind").isin(*kinds))
    if since_ms is not None:
        found = found.where((f.col("date") >= f.lit(day_of(since_ms))) & (f.col("appended_ms") >= since_ms))
    if until_ms is not None:
        found = found.where((f.col("date") <= f.lit(day_of(until_ms))) & (f.col("appended_ms") < until_ms))
    return found


def read_folders(spark: SparkSession, files: Files, chosen: Sequence[Folder]) -> DataFrame:
    """The rows in these folders. A file that is gone or cannot be read is an error, whatever the session's
    settings: a compaction would write the other rows, and remove the file."""
    if not chosen:
        return spark.createDataFrame([], SCHEMA)
    # basePath makes `batch` a column as well.
    found = spark.read.schema(SCHEMA).options(basePath=files.root, **WHOLE_FILES)
    return found.parquet(*(files.path(each.name) for each in chosen)).select(*SCHEMA.names)


def write_folder(rows: DataFrame, files: Files, folder: Folder) -> None:
    """Writes these rows as a folder of the archive; it is valid once this returns.

    One file for each kind, date and type, several if it is large: a shuffle brings their rows together, and
    adaptive execution joins its small partitions and splits large ones (64 MB,
    `spark.sql.adaptive.advisoryPartitionSizeInBytes`). Without adaptive execution one task writes all of a
    large type.
    """
    from pyspark.sql import functions as f

    by = ("kind", "date", "type_key")
    (
        rows.hint("rebalance", *(f.col(name) for name in by))
        .sortWithinPartitions(*by, "topic", "partition", "offset")
        .write.partitionBy(*by)
        .mode("error")  # no other run writes there
        # The marker makes the folder valid, whatever the session's setting.
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "true")
        .parquet(files.path(folder.name))
    )
