"""The report in a terminal, and the arguments of its job."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from interlock.spark.pipeline import job
from interlock.spark.pipeline.jobs.report import parse
from interlock.spark.pipeline.report.figures import Figures
from interlock.spark.pipeline.report.summary import summary

from tests.unit.spark.pipeline.report.samples import figures

PATHS = ("--archive", "/a", "--output", "/o")


def test_the_summary_has_counts_percentiles_and_the_path_of_the_page() -> None:
    text = summary(figures(), "/o/report.html")
    assert "firings           6,612: 6,582 met, 0 failed by fail_on, 30 expired" in text
    assert "acknowledged      6,609; 3 not yet" in text
    assert "nobody waits for 2 of them" in text
    assert "unreadable        1 record of firings, 2 conditions" in text
    [line] = [line for line in text.splitlines() if line.startswith("event -> firing")]
    assert line.split("  ")[-1].strip() == "2 h"
    assert text.endswith("\n/o/report.html\n")


def test_the_summary_of_an_empty_archive_says_so() -> None:
    assert summary(Figures(), "/o/report.html").startswith("The archive has no events")


def test_the_summary_in_json_is_numbers() -> None:
    result = json.loads(json.dumps(figures().summary()))
    assert (result["firings"], result["open"], result["types_nobody_waits_for"]) == (6612, 3, 2)
    assert result["event_to_firing_p99_ms"] == 95_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-20", 1_795_132_800_000),
        ("2026-11-20T06:00:00Z", 1_795_154_400_000),
        ("2026-11-20T06:00:00+02:00", 1_795_147_200_000),
    ],
)
def test_a_range_is_given_in_iso_8601_with_a_zone_or_by_days(text: str, ms: int) -> None:
    assert parse([*PATHS, "--since", text]).since == ms


@pytest.mark.parametrize("text", ["2026-11-20T06:00:00", "yesterday", ""])
def test_a_time_without_a_zone_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse([*PATHS, "--until", text])
    assert "is not a time with a zone" in capsys.readouterr().err


def test_an_empty_range_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse([*PATHS, "--since", "2026-11-20", "--until", "2026-11-20"])
    assert "--since must be before --until" in capsys.readouterr().err


def test_the_job_runs_as_a_file() -> None:
    shown = subprocess.run(
        [sys.executable, job("report"), "--help"], capture_output=True, text=True, check=True
    )
    assert "--archive PATH" in shown.stdout
