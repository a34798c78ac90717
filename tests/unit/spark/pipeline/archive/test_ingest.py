"""What the log tells of a run, and what a run that fails says."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from interlock.spark.pipeline import PipelineError
from interlock.spark.pipeline.archive.ingest import Batches, Progress, behind, went_through
from interlock.spark.pipeline.archive.runs import Run, begin

from .conftest import LocalFiles


@pytest.mark.parametrize(
    ("at", "latest", "expected"),
    [
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}}, 4),
        ({"t": {"0": 5}}, {"t": {"0": 5}, "new": {"0": 3}}, 3),
        ({"t": {"0": 5}}, {"t": {"0": 4}}, 0),
        (None, {"t": {"0": 4}}, 4),
        ({"t": {"0": 5}}, None, 0),
        ({"t": {"0": 5}}, "None", 0),
    ],
)
def test_how_far_behind_counts_the_offsets_of_all_partitions(
    at: object, latest: object, expected: int
) -> None:
    assert (
        behind(*(each if each in (None, "None") else json.dumps(each) for each in (at, latest))) == expected
    )


class Refused:
    """A writer whose query Spark ends at once."""

    def __init__(self, reason: str = "a file of the checkpoint is gone") -> None:
        self._reason = reason

    def start(self) -> None:
        raise RuntimeError(f"terminated with exception: {self._reason}")


@pytest.mark.parametrize(
    "reason",
    [
        "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.",
        "[CONCURRENT_QUERY] Another instance of this query was just started.",
        "Multiple streaming queries are concurrently using file:/archive/_checkpoint/offsets.",
    ],
)
def test_the_later_run_goes_on_where_spark_says_that_there_are_two(files: LocalFiles, reason: str) -> None:
    begin(files, "_runs")
    run = begin(files, "_runs")
    assert not went_through(cast(Any, Refused(reason)), Progress(), Batches(files, run), run)


def test_whatever_spark_fails_on_once_a_later_run_has_begun_is_told_as_that_run(files: LocalFiles) -> None:
    run = begin(files, "_runs")
    writer = cast(Any, Refused())
    with pytest.raises(RuntimeError, match="a file of the checkpoint"):
        went_through(writer, Progress(), Batches(files, run), run)
    begin(files, "_runs")
    with pytest.raises(PipelineError, match="another run"):
        went_through(writer, Progress(), Batches(files, run), run)


def test_storage_that_does_not_answer_hides_nothing_that_spark_failed_on(
    files: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(files, "_runs")

    def gone(_: object) -> None:
        raise OSError("no storage")

    monkeypatch.setattr(Run, "check", gone)
    with pytest.raises(RuntimeError, match="a file of the checkpoint"):
        went_through(cast(Any, Refused()), Progress(), Batches(files, run), run)
