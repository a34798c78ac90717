"""Which files are the archive: the folders that count, each record in one of them.

`batch=FIRST.RUN` holds the records of one batch, `batch=FIRST-LAST.RUN` those of several, as one run wrote
them. RUN is another one for each run of a job, so no two ever write into one folder.

1. A folder counts when it has the marker `_SUCCESS`, which is written last.
2. Of two that hold the same batches, the one of the earlier run counts.
3. A folder whose batches are among those of another one that counts does not count.

What counts is not written again: a crash leaves a folder without a marker, a repeat makes a second folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .. import PipelineError
from ..rows import KINDS, SCHEMA, day_of
from .files import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MARKER: Final = "_SUCCESS"
IDENTITY: Final = "_archive.json"  # names the archive; ingest.py makes it
_NAME: Final = re.compile(r"batch=(\d{1,18})(?:-(\d{1,18}))?(?:\.(\d{6,}-[0-9a-f]{8}))?")


@dataclass(frozen=True)
class Folder:
    """A folder of batches `first` to `last`, those included, as `run` wrote it."""

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
    """The folder of this name; None for one that is not of batches."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    first = int(match[1])
    return Folder(first, first if match[2] is None else int(match[2]), match[3] or "")


def counting(complete: Iterable[Folder]) -> tuple[Folder, ...]:
    """Those that count among folders that have the marker, by batch.

    PipelineError where two overlap in part.
    """
    found: list[Folder] = []
    for folder in sorted(complete, key=lambda each: (each.first, -each.last, each.run)):
        if found and found[-1].holds(folder):
            continue
        if found and folder.first <= found[-1].last:
            raise PipelineError(
                f"{found[-1].name} and {folder.name} have some batches in common, and each has others of its"
                " own: records would be read twice. Two compactions with different --range at once do that;"
                " move away the one whose batches other folders hold as well"
            )
        found.append(folder)
    return tuple(found)


def folders(files: Files) -> tuple[tuple[Folder, ...], tuple[Folder, ...]]:
    """The folders of batches: those with the marker, and those without."""
    complete: list[Folder] = []
    rest: list[Folder] = []
    # The names first, the markers after them: a folder that gets its marker meanwhile was among the names, or
    # those that it replaces still count.
    for name in sorted(files.folders()):
        if (folder := folder_named(name)) is not None:
            (complete if _is_complete(files, folder) else rest).append(folder)
    return tuple(complete), tuple(rest)


def completed_ms(files: Files, folder: Folder) -> int | None:
    """When a folder got its marker; None where it has none."""
    return files.changed_ms(f"{folder.name}/{MARKER}")


def _is_complete(files: Files, folder: Folder) -> bool:
    return completed_ms(files, folder) is not None


def check_there(files: Files) -> None:
    """PipelineError where there is no archive."""
    if files.changed_ms(IDENTITY) is None and not any(folder_named(name) for name in files.folders()):
        raise PipelineError(f"there is no archive in {files.root}: the archive job makes one")


def held(files: Files, number: int) -> str | None:
    """The name of a folder with the marker that holds this batch; None where there is none."""
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
    """The rows (`rows.SCHEMA`) of an archive, each once, while it is written and compacted as well.

    kinds: of `rows.KINDS`. since_ms, until_ms: those appended then or later, and before then; files of other
    days and kinds are not read. What is archived after the call is not in it. Use it within the hour after
    which a compaction removes what it replaced. PipelineError where there is no archive.
    """
    from pyspark.sql import functions as f

    if wrong := sorted(set(kinds) - set(KINDS)):
        raise PipelineError(f"kinds {wrong}: there are {', '.join(KINDS)}")
    files = Files(spark, path)
    check_there(files)
    complete, _ = folders(files)
    found = read_folders(spark, files, counting(complete)).where(f.col("kind").isin(*kinds))
    if since_ms is not None:
        found = found.where((f.col("date") >= f.lit(day_of(since_ms))) & (f.col("appended_ms") >= since_ms))
    if until_ms is not None:
        found = found.where((f.col("date") <= f.lit(day_of(until_ms))) & (f.col("appended_ms") < until_ms))
    return found


def read_folders(spark: SparkSession, files: Files, chosen: Sequence[Folder]) -> DataFrame:
    """The rows in these folders."""
    if not chosen:
        return spark.createDataFrame([], SCHEMA)
    found = spark.read.schema(SCHEMA).option("basePath", files.root)  # which makes `batch` a column as well
    return found.parquet(*(files.path(each.name) for each in chosen)).select(*SCHEMA.names)
