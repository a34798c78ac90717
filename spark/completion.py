"""The completion event: one CloudEvent that says how a Spark application ended, and what it made."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..events.errors import InterlockError
from ..events.event import Event
from ..events.schemas import SPARK, urn
from ..events.taxonomy import SPARK_APPLICATION_FAILED, SPARK_APPLICATION_SUCCEEDED
from .application import Application, airflow_task, describe
from .settings import CompletionError, Settings, read_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

RESERVED = ("airflow", "application", "error")
# Py4J puts whole Java stack traces into its messages; an event is to stay small.
_MESSAGE_LIMIT = 500


def completion_event(
    spark: SparkSession, name: str, *, data: Mapping[str, object] | None = None, required: bool = False
) -> Completion:
    """A context manager around the work of a Spark application, which sends one event when the work ends.

        with completion_event(spark, "orders", data={"date": date}) as completion:
            orders.write.parquet(path)
            completion.data["output"] = path

    The event's type is `interlock.spark.application.succeeded`, or `.failed` when an exception leaves the
    block (it goes on to the caller). Its subject is `name`, its source `/spark/<application name>`. Its data
    is the author's, at top level, with `application` (id, name, user, attempt, started_at, duration_ms,
    spark_version), `airflow` (dag_id, run_id, task_id, try_number, where this runs for a task) and, after
    a failure, `error` (class, message). Its id follows from application, name and outcome: one application
    uses a name once.

    Works with classic sessions and with Spark Connect. Where the event goes is said in the Spark
    configuration (see interlock.spark.settings); a missing or wrong setting raises CompletionError on entry,
    before any work is done. The broker has `spark.interlock.delivery.timeout` (10s) to acknowledge
    (acks=all). An event that could not be sent is logged as a warning and changes nothing else; with
    `required` it raises EmitError, if the work itself was successful.
    """
    return Completion(spark, name, data or {}, required)


class AuthorData(UserDict[str, object]):
    """The author's part of an event's data; refuses the keys that Interlock fills."""

    def __setitem__(self, key: str, item: object) -> None:
        if key in RESERVED:
            raise CompletionError(f"{key!r} in a completion event's data is Interlock's; choose another key")
        super().__setitem__(key, item)


class Completion:
    """What `completion_event` gives. `data` may be filled until the block ends; `event` is there after it."""

    def __init__(self, spark: SparkSession, name: str, data: Mapping[str, object], required: bool) -> None:
        if not name:
            raise CompletionError("a completion event needs a name: it becomes the event's subject")
        self.name = name
        self.data = AuthorData(data)
        self.required = required
        self.event: Event | None = None
        self._spark = spark
        self._work: _Work | None = None

    def __enter__(self) -> Completion:
        settings = read_settings(lambda setting: self._spark.conf.get(setting, None))
        self._work = _Work(self.name, describe(self._spark, datetime.now(UTC)), settings)
        # Data that is no JSON is told before the work, not after it.
        self._work.event(self.data, None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        work, self._work = self._work, None
        if work is None:
            raise CompletionError(f"the block of completion event {self.name!r} ended without being entered")
        failure = None if _is_success(error) else error
        try:
            self.event = work.event(self.data, failure)
            work.send(self.event)
        except InterlockError as problem:
            # Raised over a failure of the work itself it would hide that one.
            if self.required and failure is None:
                raise
            log.warning("completion event %r was not sent; the job's result stands: %s", self.name, problem)


@dataclass(frozen=True)
class _Work:
    """The work in the block: what was true when it began, kept because a stopped session answers nothing."""

    name: str
    application: Application
    settings: Settings

    def event(self, author_data: Mapping[str, object], failure: BaseException | None) -> Event:
        return ended(
            self.name,
            self.application,
            author_data,
            datetime.now(UTC),
            error=None if failure is None else (_class_name(failure), _short(str(failure))),
            airflow=airflow_task(os.environ),
        )

    def send(self, event: Event) -> None:
        from ..events.emitter import Emitter

        with Emitter(self.settings.client, self.settings.topic) as emitter:
            delivery = emitter.emit(event, timeout_s=self.settings.timeout_s)
        log.info("sent %s of %r to %s[%d]@%d", event.type, self.name, *delivery)


def ended(
    name: str,
    application: Application,
    author_data: Mapping[str, object],
    at: datetime,
    *,
    error: tuple[str, str] | None,
    airflow: Mapping[str, object],
) -> Event:
    """The completion event. error: class and message of a failure. airflow: empty outside of a task."""
    outcome = SPARK_APPLICATION_SUCCEEDED if error is None else SPARK_APPLICATION_FAILED
    data: dict[str, object] = {**author_data, "application": application.to_data(at)}
    if airflow:
        data["airflow"] = dict(airflow)
    if error is not None:
        data["error"] = dict(zip(("class", "message"), error, strict=True))
    return Event.of(
        outcome,
        f"/spark/{quote(application.name, safe='')}",
        id=_event_id(application, name, outcome),
        subject=name,
        time=at,
        dataschema=urn(SPARK),
        data=data,
    )


def _event_id(application: Application, name: str, outcome: str) -> str:
    parts = json.dumps([*application.identity, name, outcome])
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


def _is_success(error: BaseException | None) -> bool:
    # sys.exit() and sys.exit(0) end a driver with success.
    return error is None or (isinstance(error, SystemExit) and error.code in (None, 0))


def _class_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _short(message: str) -> str:
    return message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 1] + "…"
