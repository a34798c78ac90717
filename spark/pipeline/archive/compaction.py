"""Merges many small folders into few: batches 0 to 255 become one folder, and so on.

1. Write the rows of a range of batches to `batch=FIRST-LAST.RUN`, its marker last. With the marker the folder
   replaces those whose batches it holds (layout.py).
2. A later compaction removes the replaced folders once the marker is old enough, so that readers can finish.

A crash in 1 leaves a folder without a marker; 2 removes it once another folder holds its batches. A crash in
2 leaves parts of replaced folders. Ranges start at multiples of their size, so they nest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from ....events.visible import visible_logger
from .. import PipelineError
from ..progress import logged_progress
from .files import Files
from .layout import Folder, completed_ms, folders, read_folders, valid_folders, write_folder
from .retention import rows_to_keep
from .runs import ArchiveRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = visible_logger(__name__)

RANGE: Final = 256
GRACE_MS: Final = 3_600_000


@dataclass(frozen=True)
class Compacted:
    """Names of the folders that a compaction wrote and removed."""

    written: tuple[str, ...]
    removed: tuple[str, ...]


def compact(
    spark: SparkSession,
    run: ArchiveRun,
    *,
    now_ms: int,
    size: int = RANGE,
    grace_ms: int = GRACE_MS,
    since: date | None = None,
) -> Compacted:
    """Writes each complete range of `size` batches as one folder; removes folders replaced `grace_ms` ago.

    since: rows of earlier days are dropped. The archive may be written and read meanwhile. PipelineError
    between two ranges if another compaction has begun.
    """
    if size < 2:
        raise PipelineError(f"--range {size}: merge two batches or more")
    files = run.files
    complete, _ = folders(files)
    written = []
    for target, sources in ranges(valid_folders(complete), size, run.name):
        run.check()
        with logged_progress(spark, f"writing {target.name}"):
            write_folder(rows_to_keep(read_folders(spark, files, sources), since), files, target)
        log.info("merged %d folders into %s", len(sources), target.name)
        written.append(target.name)
    return Compacted(tuple(written), _remove_replaced(files, now_ms - grace_ms))


def ranges(valid: Sequence[Folder], size: int, run: str) -> Iterator[tuple[Folder, tuple[Folder, ...]]]:
    """(folder to write, folders to merge into it) for each range that is complete and not one folder yet."""
    by_range: dict[int, list[Folder]] = {}
    for folder in valid:
        if folder.first // size == folder.last // size:
            by_range.setdefault(folder.first // size, []).append(folder)
    for number, sources in by_range.items():
        batches = sum(each.last - each.first + 1 for each in sources)
        if len(sources) > 1 and batches == size:
            yield Folder(number * size, (number + 1) * size - 1, run), tuple(sources)


def _remove_replaced(files: Files, until_ms: int) -> tuple[str, ...]:
    """Removes the folders whose batches are all in a valid one that was complete at `until_ms`."""
    complete, rest = folders(files)
    valid = valid_folders(complete)
    old = [each for each in valid if (at := completed_ms(files, each)) is not None and at <= until_ms]
    removed = []
    for folder in sorted({*complete, *rest} - set(valid), key=lambda each: each.name):
        if any(holder.holds(folder) for holder in old):
            files.remove(folder.name)
            removed.append(folder.name)
    if removed:
        log.info("removed %d replaced folders", len(removed))
    return tuple(removed)
