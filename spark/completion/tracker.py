"""Tracks one block, or the wrapped job, in this process from its start to its outcome.

Who emits the completion event: under SparkSubmitEventOperator the submitting task, from a report. Otherwise
this process: at once after a failure; after a success when the process exits, since later code may fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from ...events.errors import InterlockError
from ...events.event import Event
from ...events.visible import visible_logger
from ..settings import CompletionSettings
from .application import airflow_task
from .outcome import Failure, failure_of
from .process_exit import PROCESS_EXIT, ExitCallback, is_program
from .progress import ProgressEvents
from .report import Report
from .sender import EventSender, FinalEvent, sender_for, warn_not_sent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = visible_logger(__name__)

Until = Literal["exit", "block"]


class Tracker:
    """Tracks the work from its construction to `end`.

    begun: the report of the work at its start, without data and task. data: returns the user's members
    whenever an event is made. The constructor raises CompletionError and EventError, before any work is done;
    later problems with Kafka or the settings are warnings, unless the event is required.
    """

    def __init__(
        self, begun: Report, settings: CompletionSettings, data: Callable[[], Mapping[str, Any]]
    ) -> None:
        self.name, self._settings, self._required = begun.name, settings, begun.required
        self._data: Callable[[], dict[str, Any]] = lambda: {**settings.data, **data()}
        self._begun = replace(begun, airflow=airflow_task(os.environ))
        report = replace(self._begun, data=self._data())
        report.event(None, datetime.now(UTC))  # data that is not JSON raises before the work, not after it
        if settings.report_folder is not None:
            report.save(settings.report_folder)
        self._sender = sender_for(settings)
        self._progress = ProgressEvents(self._begun, settings, self._data)

    def listen(self, spark: SparkSession) -> None:
        self._progress.listen(spark)

    def end(self, error: BaseException | None, until: Until | None = None) -> Event | None:
        """Ends the work; returns the event as of now, None if it could not be made or sent.

        until: when the outcome is final: "block" now, "exit" at the end of the process; None: at its end if
        `is_program()`, else now. If the event is required and the work succeeded, a problem with it raises:
        EmitError, EventError or OSError.
        """
        failure = failure_of(error)  # first: its text may be the JVM's, which may end meanwhile
        try:
            self._progress.close()
        except BaseException as interruption:  # such as SIGTERM's, while it waits
            self._emit(failure or failure_of(interruption), until)
            raise
        return self._emit(failure, until)

    def close(self) -> None:
        """Stops listening and emits nothing: another tracker of that name emits the completion event."""
        self._progress.close()

    def _emit(self, failure: Failure | None, until: Until | None) -> Event | None:
        try:
            report = self._report(failure)
            event = report.event(failure, datetime.now(UTC))
            if self._settings.report_folder is not None:
                report.save(self._settings.report_folder)
            elif failure is not None or until == "block" or (until is None and not is_program()):
                self._sender.send(event, required=self._required and failure is None)
                log.info("sent %s of %r", event.type, self.name)
            else:
                PROCESS_EXIT.add_callback(_at_exit(report, self._sender, self._required))
        except (InterlockError, OSError) as problem:
            # After a failure of the work, raising would hide that failure.
            if self._required and failure is None:
                raise
            warn_not_sent(self.name, self._required, problem)
            return None
        return event

    def _report(self, failure: Failure | None) -> Report:
        written = self._progress.written()
        return replace(self._begun, data=self._data(), written=written, ended=True, failure=failure)


def _at_exit(report: Report, sender: EventSender, required: bool) -> ExitCallback:
    """A callback that makes the event from the error that ended the process, and queues it.

    It does not refer to the tracker, so that Python can free that earlier.
    """

    def on_exit(error: BaseException | None) -> None:
        failure = failure_of(error)
        try:
            event = report.event(failure, datetime.now(UTC))
        except InterlockError as problem:
            warn_not_sent(report.name, required, problem)
        else:
            sender.send_at_exit(FinalEvent(event, report.name, required and failure is None))

    return on_exit
