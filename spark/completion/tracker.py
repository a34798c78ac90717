"""One name's work in this process: from its begin, over what is told meanwhile, to its one outcome.

Who tells the outcome: the submitting task, where one looks for reports; else this process, at once where the
work failed, and at the end of the process where it went well, for what comes after it may fail.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from ...events.errors import InterlockError
from ...events.event import Event
from ..settings import Settings
from .application import Application, airflow_task
from .outcome import Failure, failure_of
from .process_exit import PROCESS_END, Told, is_program
from .progress import Telling
from .report import Report
from .sender import Last, Outlet, not_told, outlet_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

Until = Literal["exit", "block"]


class Work:
    """Begins when it is made. data: the author's, asked for whenever an event is made of it. use: which use
    of the name in this application.

    CompletionError and EventError come when it is made, before any work is done; after that a problem of
    Kafka or the settings is a warning, unless `required`.
    """

    def __init__(
        self,
        name: str,
        application: Application,
        settings: Settings,
        data: Callable[[], Mapping[str, Any]],
        *,
        required: bool = False,
        use: int = 1,
    ) -> None:
        self.name, self._settings, self._required = name, settings, required
        self._data: Callable[[], dict[str, Any]] = lambda: {**settings.data, **data()}
        self._begun = Report(name, application, airflow=airflow_task(os.environ), required=required, use=use)
        report = replace(self._begun, data=self._data())
        report.event(None, datetime.now(UTC))  # data that is no JSON is told before the work, not after it
        if settings.reports is not None:
            report.save(settings.reports)
        self._outlet = outlet_of(settings)
        self._telling = Telling(name, application, settings, self._data, report.airflow, use)

    def listen(self, spark: SparkSession) -> None:
        self._telling.listen(spark)

    def end(self, error: BaseException | None, until: Until | None = None) -> Event | None:
        """The work ended; gives the event as of now, None where it cannot be told.

        until: when its outcome is final. None: at the end of a process that is a program of its own, else
        now. EmitError, or what else keeps it from being told, where the event is required and the work went
        well.
        """
        self._telling.close()
        failure = failure_of(error)
        try:
            report = self._report(failure, ended=True)
            event = report.event(failure, datetime.now(UTC))
            if self._settings.reports is not None:
                report.save(self._settings.reports)
            elif failure is not None or until == "block" or (until is None and not is_program()):
                self._outlet.send(event, required=self._required and failure is None)
                log.info("sent %s of %r", event.type, self.name)
            else:
                PROCESS_END.tell(_at_end(report, self._outlet, self._required))
        except (InterlockError, OSError) as problem:
            # Raised over a failure of the work itself it would hide that one.
            if self._required and failure is None:
                raise
            not_told(self.name, self._required, problem)
            return None
        return event

    def close(self) -> None:
        """Listen no more, and tell no end: another one tells it."""
        self._telling.close()

    def _report(self, failure: Failure | None, *, ended: bool) -> Report:
        written = self._telling.written() if ended else None
        return replace(self._begun, data=self._data(), written=written, ended=ended, failure=failure)


def _at_end(report: Report, outlet: Outlet, required: bool) -> Told:
    """Gives the event to the outlet as the process has ended. It holds nothing else of the work."""

    def told(error: BaseException | None) -> None:
        failure = failure_of(error)
        try:
            event = report.event(failure, datetime.now(UTC))
        except InterlockError as problem:
            not_told(report.name, required, problem)
        else:
            outlet.at_end(Last(event, report.name, required and failure is None))

    return told
