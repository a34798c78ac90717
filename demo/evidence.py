"""The evidence of a finished story, gathered from outside: topics, Airflow's REST API, files on disk.

Uses no code of Interlock, whose errors it must find.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from local.rest import AirflowRest, RestError, instant
from local.topics import Record, read_all

EVENT_TOPIC, ACTION_TOPIC = "interlock-event", "interlock-action"
# {label in the condition of daily_report: (type, subject) of its event}
WAITED_FOR = {
    "orders": ("interlock.spark.application.succeeded", "orders"),
    "rates": ("com.example.rates.published", "rates"),
}
DEFERRED, RESUMED = "Pausing task as DEFERRED", "::group::Pre Execute"


@dataclass(frozen=True)
class StoredEvent:
    """A CloudEvent (binary mode) in the event topic, with the business date in its data."""

    record: Record
    id: str
    source: str
    type: str
    subject: str
    date: str
    output: str

    @property
    def identity(self) -> tuple[str, str]:
        return (self.source, self.id)

    @property
    def at_ms(self) -> int:
        return self.record.timestamp_ms

    @classmethod
    def of(cls, record: Record) -> StoredEvent:
        data = record.json()
        data = data if isinstance(data, dict) else {}
        return cls(
            record,
            id=record.header("ce_id") or "",
            source=record.header("ce_source") or "",
            type=record.header("ce_type") or "",
            subject=record.header("ce_subject") or "",
            date=str(data.get("date", "")),
            output=str(data.get("output", "")),
        )


@dataclass(frozen=True)
class Action:
    """A record of the action topic: a firing or its acknowledgement."""

    record: Record
    subscription: str
    state: str
    firing: dict[str, Any]

    @property
    def key(self) -> str:
        return str(self.firing["key"])

    @property
    def is_delivery(self) -> bool:
        """Whether it goes to a service over HTTP, not to a waiting task."""
        return "/deliver/" in self.subscription

    @classmethod
    def of(cls, record: Record) -> Action | None:
        """Returns the action of a record; None for a null value, which removes a firing."""
        value = record.json()
        if not isinstance(value, dict):
            return None
        return cls(record, value["subscription"], value["state"], value["firing"])


@dataclass(frozen=True)
class Announcement:
    """A report's completion event as the readers' service got it over HTTP."""

    source: str
    id: str
    date: str

    @property
    def identity(self) -> tuple[str, str]:
        return (self.source, self.id)


@dataclass(frozen=True)
class ReportRun:
    """A run of daily_report: states and tries of its tasks, and the times when its wait was resumed."""

    run_id: str
    date: str
    state: str
    task_states: dict[str, str | None]
    tries: dict[str, int]
    resumed_ms: tuple[int, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """dates: the business dates to check. known: all dates of the concurrent stories.

    actions: of the waits of daily_report.
    """

    dates: Sequence[str]
    known: Sequence[str] = ()
    events: Sequence[StoredEvent] = ()
    actions: Sequence[Action] = ()
    runs: Sequence[ReportRun] = ()
    reports: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # by date, the files' content
    announced: Sequence[Announcement] = ()


def gather(
    api: AirflowRest,
    bootstrap_servers: str,
    data: Path,
    announced: Sequence[Announcement],
    dates: Sequence[date],
    known: Sequence[date],
) -> Evidence:
    names = [day.isoformat() for day in dates]
    actions = [Action.of(record) for record in read_all(bootstrap_servers, ACTION_TOPIC)]
    return Evidence(
        dates=names,
        known=[day.isoformat() for day in known],
        events=read_events(bootstrap_servers),
        actions=[action for action in actions if action is not None and not action.is_delivery],
        announced=announced,
        runs=[_run(api, run) for run in api.runs("daily_report")],
        reports={name: _reports(data, name) for name in names},
    )


def read_events(bootstrap_servers: str) -> list[StoredEvent]:
    return [StoredEvent.of(record) for record in read_all(bootstrap_servers, EVENT_TOPIC)]


def resumptions(log: Sequence[dict[str, Any]]) -> tuple[int, ...]:
    """Returns when the executions of a task after its first deferral began, in ms since the epoch.

    A task instance keeps the start_date of its first execution, so this is read from the log: each execution
    begins with the line `::group::Pre Execute`, which the task's process writes before it loads the DAG file,
    and `Pausing task as DEFERRED` ends one that was deferred.
    """
    times: list[int] = []
    deferred = False
    for line in sorted((line for line in log if line.get("timestamp")), key=lambda line: line["timestamp"]):
        text = str(line["event"])
        if text.startswith(DEFERRED):
            deferred = True
        elif text.startswith(RESUMED) and deferred:
            times.append(round(instant(line["timestamp"]).timestamp() * 1000))
    return tuple(times)


def _run(api: AirflowRest, run: dict[str, Any]) -> ReportRun:
    run_id = str(run["dag_run_id"])
    tasks = api.tasks("daily_report", run_id)
    tries = {task["task_id"]: len(api.tries("daily_report", run_id, task["task_id"])) for task in tasks}
    try:
        resumed = resumptions(api.log("daily_report", run_id, "ready"))
    except RestError:  # a task has no log before its first start
        resumed = ()
    return ReportRun(
        run_id=run_id,
        date=business_date(run),
        state=str(run["state"]),
        task_states={task["task_id"]: task["state"] for task in tasks},
        tries=tries,
        resumed_ms=resumed,
    )


def business_date(run: dict[str, Any]) -> str:
    return datetime.fromisoformat(run["logical_date"].replace("Z", "+00:00")).date().isoformat()


def _reports(data: Path, day: str) -> list[dict[str, Any]]:
    folder = data / "reports" / day
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
