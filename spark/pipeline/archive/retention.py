"""Removes old days from an archive."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from ....events.visible import visible_logger
from .. import PipelineError
from ..rows import FIRST_DAY
from .files import Files
from .layout import folders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUBSCRIPTION: Final = "subscription"  # of rows.KINDS
log = visible_logger(__name__)


def first_day(now: datetime, keep_days: int) -> date:
    """The first day to keep: `keep_days` before today, in UTC; at the earliest the first day of rows."""
    if keep_days < 1:
        raise PipelineError(f"--keep {keep_days}: keep at least one day")
    try:
        # Java reads no date that Python writes with fewer than four digits of the year.
        return max(now.astimezone(UTC).date() - timedelta(days=keep_days), FIRST_DAY)
    except OverflowError:
        raise PipelineError(f"--keep {keep_days}: no calendar has so many days before today") from None


def rows_to_keep(rows: DataFrame, since: date | None) -> DataFrame:
    """The rows from day `since` on, and all of registrations: one may be in force for years."""
    from pyspark.sql import functions as f

    if since is None:
        return rows
    return rows.where((f.col("date") >= f.lit(since)) | (f.col("kind") == SUBSCRIPTION))


def remove_before(files: Files, since: date) -> int:
    """Removes the rows of all days before `since`, except registrations. Returns how many folders it removed.

    A batch's folder keeps its marker, since it was archived. After a crash the next call removes the rest. A
    reader that is reading such a day fails, since its files disappear.
    """
    complete, _ = folders(files)
    removed = 0
    for folder in complete:
        for kind in files.folders(folder.name):
            if kind == f"kind={SUBSCRIPTION}":
                continue
            for name in files.folders(f"{folder.name}/{kind}"):
                day = _day(name)
                if day is not None and day < since:
                    files.remove(f"{folder.name}/{kind}/{name}")
                    removed += 1
    log.info("removed %d folders of days before %s", removed, since)
    return removed


def _day(name: str) -> date | None:
    column, _, value = name.partition("=")
    try:
        return date.fromisoformat(value) if column == "date" else None
    except ValueError:
        return None
