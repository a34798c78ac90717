"""Reports: the file that a driver leaves for the submitting task, and the completion event made from it.

Under `SparkSubmitEventOperator` a driver emits no completion event: for each block it writes a report into
the folder given by the submitting task, which makes the event from report and exit code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from ...events.content import serialize
from ...events.errors import EventError
from ...events.event import Event
from ...events.schemas import SPARK, urn
from ...events.taxonomy import SPARK_APPLICATION
from ...events.visible import visible_logger
from .application import Application
from .outcome import Failure

log = visible_logger(__name__)

MAX_BYTES: Final = 1024 * 1024  # of a report; events have the same limit
_SUFFIX: Final = ".report.json"


@dataclass(frozen=True)
class Report:
    """One block, or the wrapped job, in one attempt of an application.

    ended: false while it runs. failure: None after a success and before the end.
    use: the number of the block among those of its name in the application, from 1.
    data: the user's members. airflow: the task it runs for. written: what queries wrote, as far as known.
    required: the user wants the job to fail if its completion event cannot be sent.
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
        """The completion event. Its id is computed from application, name, use and outcome, so the driver and
        the submitting task make the same event. Raises EventError if the user's data is not JSON."""
        outcome = "succeeded" if failure is None else "failed"
        data: dict[str, Any] = {**self.data, "application": self.application.to_data(now)}
        if self.written:
            data["written"] = self.written
        if failure is not None:
            data["error"] = failure.to_data()
        identity = (outcome,) if self.use == 1 else (outcome, self.use)
        return self.new_event(SPARK_APPLICATION[outcome], SPARK, identity, now, data)

    def new_event(
        self, event_type: str, schema: str, identity: Iterable[object], time: datetime, data: dict[str, Any]
    ) -> Event:
        """An event of this block. identity: what its id depends on besides the application and the name."""
        parts = json.dumps([*self.application.identity, self.name, *identity])
        return Event.of(
            event_type,
            f"/spark/{quote(self.application.name, safe='')}",
            id=hashlib.sha256(parts.encode()).hexdigest()[:32],
            subject=self.name,
            time=time,
            dataschema=urn(schema),
            data={**data, "airflow": self.airflow} if self.airflow else data,
        )

    def save(self, folder: Path) -> None:
        """Writes its file atomically. Raises OSError, and EventError if it is too large or not JSON."""
        # The data as the event writes them: msgspec refuses types that json takes, such as numpy's float64.
        plain = {**msgspec.to_builtins(replace(self, data={})), "data": self.data}
        text = serialize(plain, None)
        if len(text) > MAX_BYTES:
            raise EventError(
                f"the report of {self.name!r} has {len(text)} bytes, more than {MAX_BYTES}: put less into its"
                " data"
            )
        name = hashlib.sha256(self.name.encode()).hexdigest()[:16]
        path = folder / f"{name}-{self.use}{_SUFFIX}"
        new = path.with_suffix(".new")
        new.write_bytes(text)
        new.replace(path)


def reports_in(folder: Path) -> list[Report]:
    """The reports in a folder, by name and use. Logs what is no report of this version, and skips it."""
    found = []
    for path in folder.glob(f"*{_SUFFIX}"):
        try:
            if (size := path.stat().st_size) > MAX_BYTES:
                raise ValueError(f"it has {size} bytes, more than {MAX_BYTES}")
            found.append(msgspec.json.decode(path.read_bytes(), type=Report))
        except ValueError as error:  # also msgspec.DecodeError and UnicodeDecodeError
            log.warning(
                "the driver's report %s cannot be read, so its content is in no event: %s. Install the same"
                " version of Interlock for the driver and this task",
                path.name,
                error,
            )
    return sorted(found, key=lambda report: (report.name, report.use))
