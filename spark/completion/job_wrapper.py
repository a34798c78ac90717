"""Runs an unmodified Python job and emits its completion event.

    spark-submit --conf spark.interlock.bootstrap.servers=host:9092 "$(python -m interlock.spark)" job.py

It sees how the main module ends: return, exception, sys.exit() or `raise SystemExit`, SIGTERM. os._exit and
SIGKILL end the wrapper too, without an event.
"""

from __future__ import annotations

import functools
import os
import runpy
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...events.errors import InterlockError
from ...events.visible import visible_logger
from ..settings import NAME, REQUIRED, flag, read_settings
from .application import Application, configuration_of, describe, describe_context
from .completion import BLOCK_NAMES
from .process_exit import PROCESS_EXIT
from .report import Report
from .tracker import Tracker

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = visible_logger(__name__)

_OURS: Final = "__main__.py"
_NAME: Final = "spark.app.name"
_NO_QUERIES: Final = "no events for queries of this session: %s"


def run_job(arguments: Sequence[str]) -> None:
    """Runs a job as Python would: arguments[0] is its file, all are its sys.argv. It may raise anything."""
    job = Path(arguments[0])
    sys.argv = list(arguments)
    sys.path.insert(0, str(job.resolve().parent))
    PROCESS_EXIT.watch()
    _name_application(job.name)
    job_tracker = _JobTracker(job.name)
    try:
        with _hooks(job_tracker.context_made, job_tracker.session_made):
            runpy.run_path(str(job), run_name="__main__")
    except BaseException as error:
        PROCESS_EXIT.record(error)
        job_tracker.end(error)
        raise
    job_tracker.end(None)


def _name_application(job: str) -> None:
    """Names the application after the job's file, as spark-submit does without the wrapper.

    spark-submit named it after the file that it runs, which is the wrapper's. The name is in the JVM's system
    properties, from which each new SparkConf reads it: so Spark's own pages show the job's name too.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return  # not started by spark-submit, so the JVM has no name
    from pyspark import SparkContext

    try:
        SparkContext._ensure_initialized()
        rename(SparkContext._jvm.System, job)  # type: ignore[union-attr]
    except Exception as e:  # noqa: BLE001  # py4j has no common error; the job must run
        log.warning("the application keeps the wrapper's name: %s", e)


def rename(properties: Any, job: str) -> None:
    """Replaces the wrapper's name in the JVM's system properties; a name that the user gave stays."""
    if properties.getProperty(_NAME) == _OURS:
        properties.setProperty(_NAME, job)


def name_of(configuration: Mapping[str, str], job: str) -> str:
    """The event's subject: spark.interlock.name, else the application's name, else the job's file."""
    named = configuration.get(_NAME)
    return configuration.get(NAME) or (job if named in (None, _OURS) else str(named))


class _JobTracker:
    """Tracks the first application that a job creates."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._tracker: Tracker | None = None
        self._begun = self._listens = False

    def context_made(self, context: SparkContext) -> None:
        if not self._begun:
            self._begin(describe_context(context), dict(context.getConf().getAll()))

    def session_made(self, spark: SparkSession) -> None:
        if not self._begun:  # Spark Connect, which has no context
            self._begin(describe(spark, datetime.now(UTC)), configuration_of(spark))
        if self._tracker is not None and not self._listens:
            self._listens = True
            try:
                self._tracker.listen(spark)
            except OSError as e:  # `_with_callback` would take it for the error of a required event
                log.warning(_NO_QUERIES, e)

    def end(self, error: BaseException | None) -> None:
        if not self._begun:
            self._begin(Application(None, self._job, fallback_id=uuid.uuid4().hex), _submitted_settings())
        if self._tracker is None:
            return
        if self._tracker.name in BLOCK_NAMES:
            self._tracker.close()
        else:
            self._tracker.end(error, until="block")

    def _begin(self, application: Application, configuration: Mapping[str, str]) -> None:
        self._begun = True
        required = False
        try:
            required = flag(configuration.get, REQUIRED)
            settings = read_settings(configuration)
            if application.name == _OURS:
                application = replace(application, name=self._job)
            name = name_of(configuration, self._job)
            self._tracker = Tracker(Report(name, application, required=required), settings, dict)
        except (InterlockError, OSError) as problem:
            if required:
                raise
            log.warning(
                "no completion event for this application; its outcome does not change: %s",
                problem,
            )


@contextmanager
def _hooks(
    context_made: Callable[[SparkContext], None], session_made: Callable[[SparkSession], None]
) -> Iterator[None]:
    """Calls back after each context and session created inside the block. A callback's error does not fail
    the constructor, except where the event is required."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    callbacks: list[tuple[type, Callable[[Any], None]]] = [
        (SparkContext, context_made),
        (SparkSession, session_made),
    ]
    try:
        from pyspark.sql.connect.session import SparkSession as ConnectSession
    except ImportError:  # its dependencies are an extra of pyspark
        pass
    else:
        callbacks.append((ConnectSession, session_made))
    before = [(kind, kind.__init__) for kind, _ in callbacks]  # type: ignore[misc]
    for kind, call in callbacks:
        kind.__init__ = _with_callback(kind.__init__, call)  # type: ignore[misc]
    try:
        yield
    finally:
        for kind, init in before:
            kind.__init__ = init  # type: ignore[misc]


def _with_callback(init: Callable[..., None], call: Callable[[Any], None]) -> Callable[..., None]:
    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        init(self, *args, **kwargs)
        try:
            call(self)
        except (InterlockError, OSError):
            raise  # the event is required
        except Exception as e:  # noqa: BLE001  # the job must get its session
            log.warning(_NO_QUERIES, e)

    return __init__


def _submitted_settings() -> dict[str, str]:
    """The configuration given to spark-submit, for a job that ended before it created a session."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    try:
        SparkContext._ensure_initialized()
        return dict(SparkConf(_jvm=SparkContext._jvm).getAll())
    except Exception as e:  # noqa: BLE001  # py4j has no common error; the JVM may be gone
        log.warning("cannot read Spark's configuration: %s", e)
        return {}
