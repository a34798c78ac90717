"""Removal of old days."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from interlock.spark.pipeline import PipelineError
from interlock.spark.pipeline.archive.checkpoint import check_batches
from interlock.spark.pipeline.archive.retention import first_day, remove_before

from .conftest import LocalFiles


def test_earlier_days_are_removed_and_their_batches_stay_known(
    files: LocalFiles, checkpoint: LocalFiles
) -> None:
    files.batch("batch=0", days=("2026-11-18", "2026-11-19"))
    files.batch("batch=1", days=("2026-11-18", "2026-11-20"))
    checkpoint.write("offsets/1", "")
    checkpoint.write("commits/1", "")
    assert remove_before(files, date(2026, 11, 20)) == 3
    assert list(files.folders("batch=0/kind=event")) == []
    assert list(files.folders("batch=1/kind=event")) == ["date=2026-11-20"]
    check_batches(files, checkpoint)
    assert remove_before(files, date(2026, 11, 20)) == 0


def test_registrations_are_kept_since_they_may_be_in_force_for_years(files: LocalFiles) -> None:
    files.batch("batch=0", days=("2026-11-18",))
    registered = "batch=0/kind=subscription/date=2026-11-18/type_key=bus-subscription/part-0.parquet"
    files.write(registered, "rows")
    assert remove_before(files, date(2026, 11, 20)) == 1
    assert list(files.folders("batch=0/kind=subscription")) == ["date=2026-11-18"]


def test_a_folder_that_is_being_written_is_kept(files: LocalFiles) -> None:
    files.batch("batch=0", marked_ms=None, days=("2026-11-18",))
    assert remove_before(files, date(2026, 11, 20)) == 0


def test_days_are_counted_in_utc() -> None:
    late = datetime(2026, 11, 21, 0, 30, tzinfo=timezone(timedelta(hours=2)))
    assert first_day(late, 30) == date(2026, 10, 21)
    assert first_day(datetime(2026, 11, 20, tzinfo=UTC), 1) == date(2026, 11, 19)


def test_keeping_no_day_is_refused() -> None:
    with pytest.raises(PipelineError, match="keep at least one day"):
        first_day(datetime(2026, 11, 20, tzinfo=UTC), 0)


@pytest.mark.parametrize("days", [800_000, 3_700_000, 10**9, 10**400])
def test_keeping_more_days_than_there_were_is_refused(days: int) -> None:
    with pytest.raises(PipelineError, match="no calendar has so many days"):
        first_day(datetime(2026, 11, 20, tzinfo=UTC), days)


@pytest.mark.parametrize("days", [21_000, 500_000, 739_000])
def test_keeping_days_from_before_rows_have_one_keeps_all(days: int) -> None:
    """apache/spark: `lit(date)` writes year 657 as "657", and java.sql.Date.valueOf refuses that."""
    assert first_day(datetime(2026, 11, 20, tzinfo=UTC), days) == date(1970, 1, 1)
