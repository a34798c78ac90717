"""The arguments of the archive's jobs."""

from __future__ import annotations

import pytest
from interlock.conditions.errors import ConditionError
from interlock.spark.pipeline.archive.ingest import IngestOptions
from interlock.spark.pipeline.jobs.archive import main, parse
from interlock.spark.pipeline.jobs.archive_compact import parse as parse_compact


def test_the_arguments_select_what_is_archived() -> None:
    assert parse(["--archive", "/a"]) == IngestOptions("/a")
    given = ["--archive", "/a", "--checkpoint", "/c", "--topic", "x", "--topic", "y", "--every", "5m"]
    given += ["--max-offsets", "7", "--accept-loss"]
    assert parse(given) == IngestOptions("/a", "/c", ("x", "y"), 300_000, 7, accept_loss=True)


def test_a_wrong_argument_is_an_error_before_spark_starts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConditionError, match="--every"):
        parse(["--archive", "/a", "--every", "often"])
    with pytest.raises(SystemExit, match=r"archive: --every"):
        main(["--archive", "/a", "--every", "often"])
    for number in ("0", "-1", "9223372036854775808", "9" * 40):
        with pytest.raises(SystemExit):
            parse(["--archive", "/a", f"--max-offsets={number}"])
        assert "give 1 or more, at most 9223372036854775807" in capsys.readouterr().err


def test_a_compaction_merges_256_batches_and_waits_an_hour_by_default() -> None:
    given = parse_compact(["--archive", "/a"])
    assert (given.archive, given.range, given.grace, given.keep) == ("/a", 256, "1h", None)
