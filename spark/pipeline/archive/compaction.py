"""Many small files into few: batches 0 to 255 become one folder, and so on.

1. The rows of a range of batches are written to `batch=FIRST-LAST.RUN`; its marker comes last, and with it
   the folder counts in the place of those whose batches it holds (layout.py).
2. Those are removed by a later compaction, when the marker is old enough: who began to read them can finish.

A crash in 1 leaves a folder without a marker, which is removed in 2 once another one holds its batches. A
crash in 2 leaves pieces of folders that do not count. Ranges begin at multiples of their size, so they nest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from .. import PipelineError
from ..progress import told
from .files import Files
from .layout import Folder, completed_ms, counting, folders, read_folders
from .retention import kept
from .runs import Run
from .storing import store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

RANGE: Final = 256
GRACE_MS: Final = 3_600_000


@dataclass(frozen=True)
class Compacted:
    """The folders that a compaction wrote, and those that it removed."""

    written: tuple[str, ...]
    removed: tuple[str, ...]


def compact(
    spark: SparkSession,
    files: Files,
    run: Run,
    *,
    now_ms: int,
    size: int = RANGE,
    grace_ms: int = GRACE_MS,
    since: date | None = None,
) -> Compacted:
    """Write each whole range of `size` batches as one folder, and remove what was replaced `grace_ms` ago.

    since: rows of days before it are left out. The archive may be written and read meanwhile. PipelineError
    when another compaction takes over, between two ranges.
    """
    if size < 2:
        raise PipelineError(f"a range of {size} batches: two at least become one")
    complete, _ = folders(files)
    written = []
    for target, sources in ranges(counting(complete), size, run.name):
        run.check()
        with told(spark, f"writing {target.name}"):
            store(kept(read_folders(spark, files, sources), since), files, target)
        log.info("%s has what %d folders had", target.name, len(sources))
        written.append(target.name)
    return Compacted(tuple(written), _remove_replaced(files, now_ms - grace_ms))


def ranges(counted: Sequence[Folder], size: int, run: str) -> Iterator[tuple[Folder, tuple[Folder, ...]]]:
    """The folders to write, each with those whose rows it takes: of ranges that are whole and not one yet."""
    by_range: dict[int, list[Folder]] = {}
    for folder in counted:
        if folder.first // size == folder.last // size:
            by_range.setdefault(folder.first // size, []).append(folder)
    for number, sources in by_range.items():
        batches = sum(each.last - each.first + 1 for each in sources)
        if len(sources) > 1 and batches == size:
            yield Folder(number * size, (number + 1) * size - 1, run), tuple(sources)


def _remove_replaced(files: Files, until_ms: int) -> tuple[str, ...]:
    """Remove folders all of whose batches are in another one that counts since `until_ms` or before."""
    complete, rest = folders(files)
    counted = counting(complete)
    old = [each for each in counted if (at := completed_ms(files, each)) is not None and at <= until_ms]
    removed = []
    for folder in sorted({*complete, *rest} - set(counted), key=lambda each: each.name):
        if any(holder.holds(folder) for holder in old):
            files.remove(folder.name)
            removed.append(folder.name)
    if removed:
        log.info("removed %d folders that were replaced", len(removed))
    return tuple(removed)
