"""The log of a run, and the errors of a run that fails."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from interlock.spark.pipeline import PipelineError
from interlock.spark.pipeline.archive.ingest import Batches, BatchLog, offsets_behind, ran_to_end
from interlock.spark.pipeline.archive.runs import ArchiveRun, begin

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
def test_offsets_behind_are_summed_over_all_partitions(at: object, latest: object, expected: int) -> None:
    assert (
        offsets_behind(*(each if each in (None, "None") else json.dumps(each) for each in (at, latest)))
        == expected
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
def test_the_later_run_tries_again_when_spark_finds_two_runs(files: LocalFiles, reason: str) -> None:
    begin(files, "_runs")
    run = begin(files, "_runs")
    assert not ran_to_end(cast(Any, Refused(reason)), BatchLog(), Batches(files, run), run)


def test_any_failure_of_spark_is_reported_as_the_later_run_when_there_is_one(files: LocalFiles) -> None:
    run = begin(files, "_runs")
    writer = cast(Any, Refused())
    with pytest.raises(RuntimeError, match="a file of the checkpoint"):
        ran_to_end(writer, BatchLog(), Batches(files, run), run)
    begin(files, "_runs")
    with pytest.raises(PipelineError, match="another run"):
        ran_to_end(writer, BatchLog(), Batches(files, run), run)


def test_unresponsive_storage_does_not_hide_sparks_failure(
    files: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(files, "_runs")

    def gone(_: object) -> None:
        raise OSError("no storage")

    monkeypatch.setattr(ArchiveRun, "check", gone)
    with pytest.raises(RuntimeError, match="a file of the checkpoint"):
        ran_to_end(cast(Any, Refused()), BatchLog(), Batches(files, run), run)
