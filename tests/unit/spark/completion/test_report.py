"""Reports: the completion event, and the file that holds it for the submitting task."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from interlock.events.errors import EventError
from interlock.spark.completion.application import Application
from interlock.spark.completion.outcome import Failure
from interlock.spark.completion.report import MAX_BYTES, Report, reports_in

BEGAN = datetime(2026, 11, 20, 6, tzinfo=UTC)
NOW = BEGAN + timedelta(minutes=2)
ORDERS = Application("local-1", "daily orders", "ada", None, None, BEGAN, "4.0.0")


def test_a_saved_report_is_read_back_unchanged(tmp_path: Path) -> None:
    report = Report(
        "orders",
        replace(ORDERS, process="1f0c"),
        data={"date": "2026-11-20", "rows": 3},
        airflow={"dag_id": "d", "try_number": 1},
        written={"queries": 1, "rows": 3, "bytes": 10, "outputs": ["/data"]},
        ended=True,
        failure=Failure("ValueError", "no"),
    )
    report.save(tmp_path)
    [read] = reports_in(tmp_path)
    assert read == report
    assert read.event(None, NOW).id == report.event(None, NOW).id


def test_a_later_report_of_a_name_replaces_the_earlier_one(tmp_path: Path) -> None:
    for name, ended in (("orders", False), ("a/../b", False), ("orders", True)):
        Report(name, ORDERS, ended=ended).save(tmp_path)
    assert [(each.name, each.ended) for each in reports_in(tmp_path)] == [("a/../b", False), ("orders", True)]


def test_unreadable_files_are_skipped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.report.json").write_bytes(b'{"name": 3}')
    (tmp_path / "b.report.json").write_bytes(b"\xff\x00")
    (tmp_path / "c.report.json").write_bytes(b" " * (MAX_BYTES + 1))
    (tmp_path / "d.report.new").write_bytes(b"half")
    Report("orders", ORDERS).save(tmp_path)
    assert [each.name for each in reports_in(tmp_path)] == ["orders"]
    warned = sorted(record.getMessage()[:31] for record in caplog.records)
    assert warned == [f"the driver's report {name}" for name in ("a.report.js", "b.report.js", "c.report.js")]


def test_a_report_larger_than_an_event_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EventError, match="'orders' has"):
        Report("orders", ORDERS, data={"x": "y" * MAX_BYTES}).save(tmp_path)
    assert reports_in(tmp_path) == []


class Float64(float):
    """A subclass of float, as numpy's is."""


@pytest.mark.parametrize(
    "value", [Float64(1.5), 2**64 + 1, Counter("aab"), {1: 2}, {None: 1}, {1.5: [Float64(2)]}, "\u2028é"]
)
def test_a_report_takes_the_data_that_the_event_takes(tmp_path: Path, value: object) -> None:
    """Regression: msgspec encodes fewer types than json, so work that succeeded failed at its end."""
    report = Report("orders", ORDERS, data={"rows": value})
    report.save(tmp_path)
    [read] = reports_in(tmp_path)
    assert read.event(None, NOW).payload == report.event(None, NOW).payload


@pytest.mark.parametrize("value", [object(), float("nan"), "\udce9"])
def test_a_report_refuses_the_data_that_the_event_refuses(tmp_path: Path, value: object) -> None:
    report = Report("orders", ORDERS, data={"rows": value})
    for refuses in (lambda: report.save(tmp_path), lambda: report.event(None, NOW)):
        with pytest.raises(EventError, match="cannot be written as JSON"):
            refuses()


def test_the_event_id_is_that_of_the_application_its_name_use_and_outcome() -> None:
    ended, open_ = Report("orders", ORDERS, ended=True), Report("orders", ORDERS)
    assert ended.event(None, NOW).id == open_.event(None, NOW).id
    others = [
        ended.event(Failure("ValueError", "no"), NOW),
        Report("rates", ORDERS).event(None, NOW),
        Report("orders", ORDERS, use=2).event(None, NOW),
        Report("orders", Application("local-2", "daily orders")).event(None, NOW),
        Report("orders", replace(ORDERS, process="1f0c")).event(None, NOW),
        Report("orders", Application(None, "daily orders", fallback_id="try 1")).event(None, NOW),
        Report("orders", Application(None, "daily orders", fallback_id="try 2")).event(None, NOW),
    ]
    assert len({event.id for event in (*others, ended.event(None, NOW))}) == 8


def test_a_clock_that_was_set_back_makes_no_negative_duration() -> None:
    event = Report("orders", ORDERS).event(None, BEGAN - timedelta(seconds=9))
    assert event.payload["application"]["duration_ms"] == 0  # type: ignore[index]


def test_an_application_whose_driver_did_not_report_has_only_its_name() -> None:
    event = Report("orders", Application(None, "daily orders", fallback_id="x")).event(Failure("E", "m"), NOW)
    assert event.source == "/spark/daily%20orders"
    assert event.payload == {
        "application": {
            "id": None,
            "name": "daily orders",
            "user": None,
            "attempt": None,
            "started_at": None,
            "duration_ms": None,
            "spark_version": None,
        },
        "error": {"class": "E", "message": "m"},
    }
