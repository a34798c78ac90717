"""What the archive's jobs are told by their arguments."""

from __future__ import annotations

import pytest
from interlock.conditions.errors import ConditionError
from interlock.spark.pipeline.archive.ingest import Wanted
from interlock.spark.pipeline.jobs.archive import main, wanted
from interlock.spark.pipeline.jobs.archive_compact import parsed


def test_the_arguments_say_what_is_archived() -> None:
    assert wanted(["--archive", "/a"]) == Wanted("/a")
    given = ["--archive", "/a", "--checkpoint", "/c", "--topic", "x", "--topic", "y", "--every", "5m"]
    given += ["--max-offsets", "7", "--accept-loss"]
    assert wanted(given) == Wanted("/a", "/c", ("x", "y"), 300_000, 7, accept_loss=True)


def test_an_argument_that_is_wrong_is_told_before_spark_starts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConditionError, match="--every"):
        wanted(["--archive", "/a", "--every", "often"])
    with pytest.raises(SystemExit, match=r"archive: --every"):
        main(["--archive", "/a", "--every", "often"])
    with pytest.raises(SystemExit):
        wanted(["--archive", "/a", "--max-offsets", "0"])
    assert "one at least" in capsys.readouterr().err


def test_a_compaction_takes_256_batches_and_waits_an_hour_unless_told() -> None:
    given = parsed(["--archive", "/a"])
    assert (given.archive, given.range, given.grace, given.keep) == ("/a", 256, "1h", None)
