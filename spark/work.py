"""One name's work in this process: from its begin, over what is told meanwhile, to its one outcome.

Who tells the outcome: the submitting task, where one looks for reports; else this process, at once where the
work failed, and at the end of the process where it went well, for what comes after it may fail.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from ..events.errors import InterlockError
from ..events.event import Event
from .application import Application, airflow_task
from .ending import PROCESS_END, is_program
from .outcome import Failure, failure_of
from .report import Report
from .settings import Settings
from .telling import Telling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

Until = Literal["exit", "block"]


class Work:
    """Begins when it is made. data: the author's, asked for whenever an event is made of it.

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
    ) -> None:
        self.name, self._settings, self._required = name, settings, required
        self._data: Callable[[], dict[str, Any]] = lambda: {**settings.data, **data()}
        self._begun = Report(name, application, airflow=airflow_task(os.environ), required=required)
        report = replace(self._begun, data=self._data())
        report.event(None, datetime.now(UTC))  # data that is no JSON is told before the work, not after it
        if settings.reports is not None:
            report.save(settings.reports)
        self._telling = Telling(name, application, settings, self._data, report.airflow)

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
                self._send(event)
            else:
                PROCESS_END.tell(lambda later: self._at_exit(report, later))
        except (InterlockError, OSError) as problem:
            # Raised over a failure of the work itself it would hide that one.
            if self._required and failure is None:
                raise
            self._not_told(problem)
            return None
        return event

    def _at_exit(self, report: Report, error: BaseException | None) -> None:
        failure = failure_of(error)
        try:
            self._send(report.event(failure, datetime.now(UTC)))
        except InterlockError as problem:
            self._not_told(problem)
            if self._required and failure is None:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(1)  # no handler of atexit can change the exit code otherwise

    def _report(self, failure: Failure | None, *, ended: bool) -> Report:
        written = self._telling.written() if ended else None
        return replace(self._begun, data=self._data(), written=written, ended=ended, failure=failure)

    def _send(self, event: Event) -> None:
        delivery = self._telling.send(event)
        log.info("sent %s of %r to %s[%d]@%d", event.type, self.name, *delivery)

    def _not_told(self, problem: Exception) -> None:
        what = "is required" if self._required else "the job's result stands"
        log.warning("completion event %r was not sent; %s: %s", self.name, what, problem)
