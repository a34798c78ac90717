"""Completion events of Airflow's DAG runs and task instances.

The listener and reconcile emit the same event for the same completion. Its id is computed from what ended,
how often it had been cleared, and its state, and does not depend on who emits it or when.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from .attributes import format_timestamp
from .event import Event
from .schemas import AIRFLOW_DAG_RUN, AIRFLOW_TASK_INSTANCE, urn
from .taxonomy import DAG_RUN, TASK_INSTANCE

DAY: Final = "ds"  # extension attribute and member of data: the day of the logical date
_OF_RUNS: Final = {
    *("deployment", "dag_id", "run_id", "run_type", "run_after", "logical_date", DAY, "partition_key"),
    *("data_interval_start", "data_interval_end", "state", "started_at", "ended_at"),
}
# An id that Airflow takes for a DAG or a task (`validate_key`); letters and digits may be of any script.
AIRFLOW_ID: Final = re.compile(r"[\w.-]{1,250}")
# {kind of event: the members of its data}. The data never has others.
MEMBERS: Final = {
    "dag_run": frozenset({*_OF_RUNS, "clear_number"}),
    "task_instance": frozenset({*_OF_RUNS, "task_id", "map_index", "try_number"}),
}


@dataclass(frozen=True, kw_only=True)
class DagRun:
    """The DAG run in a completion event. Times are aware.

    logical_date and the data interval are None for manual runs without a date and asset-triggered runs.
    """

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
        """Airflow's `ds`."""
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
class DagRunCompletion:
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
        """Returns the event. Raises EventError if Airflow's names do not fit CloudEvents' attributes."""
        run = self.run
        return Event.of(
            DAG_RUN[self.state],
            airflow_source(run.deployment, run.dag_id),
            id=self.id,
            subject=run.dag_id,
            time=self.ended_at,
            dataschema=urn(AIRFLOW_DAG_RUN),
            data={**run.to_data(), "clear_number": run.clear_number, **_outcome(self)},
            **{DAY: run.day},
        )


@dataclass(frozen=True, kw_only=True)
class TaskInstanceCompletion:
    """A task instance that ended in `state`: "success", "failed" (no retry is left) or "skipped".

    map_index: -1 if the task is not mapped. max_tries: Airflow's. It is the same in all retries of a task and
    grows when the task is cleared after a try. So a retry that ends like the try before it has the same event
    id, and a cleared task has a new one.
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
        """As DagRunCompletion.event."""
        run = self.run
        return Event.of(
            TASK_INSTANCE[self.state],
            airflow_source(run.deployment, run.dag_id, self.task_id),
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


Completion = DagRunCompletion | TaskInstanceCompletion


def _outcome(completion: Completion) -> dict[str, object]:
    return {
        "state": completion.state,
        "started_at": _text(completion.started_at),
        "ended_at": _text(completion.ended_at),
    }


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else format_timestamp(moment)


def airflow_source(*parts: str) -> str:
    """The source of a completion event. parts: deployment and DAG, then the task of a task instance."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _id(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
