"""What is told of one name's work in one attempt of an application: its event, and the file it waits in.

Submitted by `SparkSubmitEventOperator` a driver sends no event of its end: it leaves a report for each name
in a folder that the submitting task gave it, and that task completes them by the exit code.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from ...events.errors import EventError
from ...events.event import Event
from ...events.schemas import SPARK, urn
from ...events.taxonomy import SPARK_APPLICATION
from .application import Application
from .outcome import Failure

MAX_BYTES: Final = 1024 * 1024  # of a report: an event may not be larger either
_SUFFIX: Final = ".report.json"


@dataclass(frozen=True)
class Report:
    """The work of one name. failure: None where it ended well, or where `ended` says that it has not yet.

    use: which use of the name in this application. data: the author's. airflow: the task it runs for.
    written: what queries wrote, as far as it is known. required: the author's word that work whose end is not
    told has failed.
    """

    name: str
    application: Application
    data: dict[str, Any] = field(default_factory=dict)
    airflow: dict[str, Any] = field(default_factory=dict)
    written: dict[str, Any] | None = None
    ended: bool = False
    failure: Failure | None = None
    required: bool = False
    use: int = 1

    def event(self, failure: Failure | None, now: datetime) -> Event:
        """The event of its end. Its id follows from application, name, use and outcome: whoever tells it
        tells the same. EventError where the author's data are no JSON."""
        outcome = "succeeded" if failure is None else "failed"
        data: dict[str, Any] = {**self.data, "application": self.application.to_data(now)}
        if self.airflow:
            data["airflow"] = self.airflow
        if self.written:
            data["written"] = self.written
        if failure is not None:
            data["error"] = failure.to_data()
        return Event.of(
            SPARK_APPLICATION[outcome],
            f"/spark/{quote(self.application.name, safe='')}",
            id=self._id(outcome),
            subject=self.name,
            time=now,
            dataschema=urn(SPARK),
            data=data,
        )

    def save(self, folder: Path) -> None:
        """Into its file, which is there whole or not at all. OSError, EventError where it is too large."""
        text = msgspec.json.encode(self)
        if len(text) > MAX_BYTES:
            raise EventError(f"the report of {self.name!r} has {len(text)} bytes: at most {MAX_BYTES}")
        name = hashlib.sha256(self.name.encode()).hexdigest()[:16]
        path = folder / f"{name}-{self.use}{_SUFFIX}"
        new = path.with_suffix(".new")
        new.write_bytes(text)
        new.replace(path)

    def _id(self, outcome: str) -> str:
        more = () if self.use == 1 else (self.use,)
        parts = json.dumps([*self.application.identity, self.name, outcome, *more])
        return hashlib.sha256(parts.encode()).hexdigest()[:32]


def reports_in(folder: Path) -> list[Report]:
    """The reports of a folder, by name and use. What a driver left that cannot be read is left out."""
    found = []
    for path in folder.glob(f"*{_SUFFIX}"):
        if path.stat().st_size <= MAX_BYTES:
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=Report))
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
    return sorted(found, key=lambda report: (report.name, report.use))
