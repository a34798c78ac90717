"""Ends of runs of a DAG, as Airflow's listener emits them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from interlock import Event
from interlock.events.completions import DagRun, DagRunCompletion

NOON: Final = datetime(2026, 11, 20, 12, tzinfo=UTC)


def run_of(day: datetime | None = NOON, dag_id: str = "ingest", **given: Any) -> DagRun:
    about = {"deployment": "airflow", "run_id": "r", "run_type": "scheduled", "run_after": NOON}
    return DagRun(dag_id=dag_id, logical_date=day, **(about | given))


def ended(day: datetime | None = NOON, state: str = "success", **given: Any) -> Event:
    return DagRunCompletion(run=run_of(day, **given), state=state, started_at=NOON, ended_at=NOON).event()
