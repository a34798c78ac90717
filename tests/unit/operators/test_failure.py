"""What a wait's log says about the failure that ended it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from interlock import Event
from interlock.events.completions import DagRun, DagRunCompletion, TaskInstanceCompletion
from interlock.operators.failure import details
from interlock.spark.completion.application import Application
from interlock.spark.completion.outcome import Failure
from interlock.spark.completion.report import Report

NOW = datetime(2026, 11, 20, 6, tzinfo=UTC)
RUN = DagRun(
    deployment="a", dag_id="ingest", run_id="scheduled__2026-11-20", run_type="scheduled", run_after=NOW
)
ERROR = "pyspark.errors.AnalysisException"
TASK = {"dag_id": "ingest", "task_id": "orders", "run_id": "scheduled__2026-11-20", "try_number": 2}


def failed_application(airflow: dict[str, Any], message: str = "no such table") -> Event:
    report = Report("orders", Application("local-1", "orders.py"), airflow=airflow)
    return report.event(Failure(ERROR, message), NOW)


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (
            failed_application(TASK),
            f"{ERROR}: no such table; Airflow task ingest.orders, run scheduled__2026-11-20, try 2",
        ),
        (
            failed_application({**TASK, "map_index": 3}, ""),
            f"{ERROR}; Airflow task ingest.orders [3], run scheduled__2026-11-20, try 2",
        ),
        (failed_application({}), f"{ERROR}: no such table"),
        (
            DagRunCompletion(run=RUN, state="failed", started_at=NOW, ended_at=NOW).event(),
            "DAG ingest, run scheduled__2026-11-20",
        ),
        (
            TaskInstanceCompletion(
                run=RUN, task_id="orders", map_index=-1, try_number=3, max_tries=3, state="failed",
                started_at=NOW, ended_at=NOW,
            ).event(),
            "Airflow task ingest.orders, run scheduled__2026-11-20, try 3",
        ),
    ],
    ids=["spark", "mapped", "alone", "dag run", "task"],
)  # fmt: skip
def test_a_completion_event_says_its_error_and_its_task(sent: Event, text: str) -> None:
    """Reference: a fail_on failure showed a hash instead of the Spark error and the Airflow task."""
    assert details(sent.to_json_dict()) == text


@pytest.mark.parametrize(
    "data",
    [
        None, "text", 7, [], {}, {"error": "text"}, {"error": {}}, {"error": {"message": "m"}},
        {"airflow": 5}, {"airflow": {"task_id": "t"}}, {"dag_id": ""}, {"error": None, "airflow": None},
    ],
    ids=repr,
)  # fmt: skip
def test_an_event_of_another_form_says_nothing(data: object) -> None:
    assert details({"type": "t", "data": data}) == ""
    assert details({"type": "t"}) == ""


def test_a_long_text_is_cut() -> None:
    assert len(details({"data": {"error": {"class": "C", "message": "m" * 100_000}}})) == 500
