"""The end of a DAG run or a task instance of Airflow, and the event that tells it.

Whoever tells an end (listener, reconcile) makes the same event of it: the id follows from what ended, how
often it had been cleared by then, and its state; nothing in it depends on who tells, or when.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from .attributes import format_timestamp
from .event import Event
from .schemas import AIRFLOW_DAG_RUN, AIRFLOW_TASK_INSTANCE, urn
from .taxonomy import DAG_RUN, TASK_INSTANCE

DAY: Final = "ds"  # the extension attribute, and the member of data, that holds the day of the logical date


@dataclass(frozen=True, kw_only=True)
class DagRun:
    """What an event tells of a DAG run. Times are aware; logical_date and data interval are None where
    Airflow has none: in manual runs without a date, and in asset-triggered ones."""

    deployment: str
    dag_id: str
    run_id: str
    run_type: str
    run_after: datetime | None
    logical_date: datetime | None = None
    data_interval_start: datetime | None = None
    data_interval_end: datetime | None = None
    partition_key: str | None = None
    clear_number: int = 0

    @property
    def day(self) -> str | None:
        """As Airflow's `ds`."""
        return None if self.logical_date is None else self.logical_date.astimezone(UTC).date().isoformat()

    def to_data(self) -> dict[str, object]:
        return {
            "deployment": self.deployment,
            "dag_id": self.dag_id,
            "run_id": self.run_id,
            "run_type": self.run_type,
            "logical_date": _text(self.logical_date),
            DAY: self.day,
            "data_interval_start": _text(self.data_interval_start),
            "data_interval_end": _text(self.data_interval_end),
            "run_after": _text(self.run_after),
            "partition_key": self.partition_key,
        }


@dataclass(frozen=True, kw_only=True)
class DagRunEnd:
    """A DAG run that ended in `state`, "success" or "failed"."""

    run: DagRun
    state: str
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def id(self) -> str:
        run = self.run
        return _id("dag_run", run.deployment, run.dag_id, run.run_id, run.clear_number, self.state)

    def event(self) -> Event:
        """EventError where Airflow's names do not fit CloudEvents' attributes."""
        run = self.run
        return Event.of(
            DAG_RUN[self.state],
            _source(run.deployment, run.dag_id),
            id=self.id,
            subject=run.dag_id,
            time=self.ended_at,
            dataschema=urn(AIRFLOW_DAG_RUN),
            data={**run.to_data(), "clear_number": run.clear_number, **_outcome(self)},
            **{DAY: run.day},
        )


@dataclass(frozen=True, kw_only=True)
class TaskInstanceEnd:
    """A task instance that ended in `state`: "success", "failed" (no retry is left) or "skipped".

    map_index: -1 where the task is not mapped. max_tries: Airflow's, which stays in the retries of a task
    and grows when it is cleared after a try: with it a retry that ends as the try before did is told by the
    same event, and what a cleared task does is told by another.
    """

    run: DagRun
    task_id: str
    map_index: int
    try_number: int
    max_tries: int
    state: str
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def id(self) -> str:
        run = self.run
        return _id(
            "task_instance", run.deployment, run.dag_id, run.run_id, self.task_id, self.map_index,
            self.max_tries, self.state,
        )  # fmt: skip

    def event(self) -> Event:
        """As DagRunEnd.event."""
        run = self.run
        return Event.of(
            TASK_INSTANCE[self.state],
            _source(run.deployment, run.dag_id, self.task_id),
            id=self.id,
            subject=f"{run.dag_id}/{self.task_id}",
            time=self.ended_at,
            dataschema=urn(AIRFLOW_TASK_INSTANCE),
            data={
                **run.to_data(),
                "task_id": self.task_id,
                "map_index": self.map_index,
                "try_number": self.try_number,
                **_outcome(self),
            },
            **{DAY: run.day},
        )


End = DagRunEnd | TaskInstanceEnd


def _outcome(end: End) -> dict[str, object]:
    return {"state": end.state, "started_at": _text(end.started_at), "ended_at": _text(end.ended_at)}


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else format_timestamp(moment)


def _source(*parts: str) -> str:
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _id(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
