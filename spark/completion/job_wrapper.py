"""Runs a job in Python whose code stays as it is, and tells its end.

    spark-submit --conf spark.interlock.bootstrap.servers=host:9092 "$(python -m interlock.spark)" job.py

It sees how the main module ends: by returning, by an exception, by sys.exit() or `raise SystemExit`, by
SIGTERM. os._exit and SIGKILL end it as well.
"""

from __future__ import annotations

import functools
import logging
import os
import runpy
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...events.errors import InterlockError
from ..settings import NAME, REQUIRED, flag, read_settings
from .application import Application, configuration_of, describe, describe_context
from .completion import NAMES
from .process_exit import PROCESS_END
from .tracker import Work

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_OURS: Final = "__main__.py"


def run_job(arguments: Sequence[str]) -> None:
    """Run a job as Python itself would: arguments[0] is its file, sys.argv all of them.

    What it raises goes on to the caller.
    """
    job = Path(arguments[0])
    sys.argv = list(arguments)
    sys.path.insert(0, str(job.resolve().parent))
    PROCESS_END.watch()
    watched = _Watched(job.name)
    try:
        with _hooks(watched.context_made, watched.session_made):
            runpy.run_path(str(job), run_name="__main__")
    except BaseException as error:
        PROCESS_END.note(error)
        watched.end(error)
        raise
    watched.end(None)


class _Watched:
    """The work of the application that a job makes; of its first one, where it makes several."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._work: Work | None = None
        self._begun = self._listens = False

    def context_made(self, context: SparkContext) -> None:
        if not self._begun:
            self._begin(describe_context(context), dict(context.getConf().getAll()))

    def session_made(self, spark: SparkSession) -> None:
        if not self._begun:  # Spark Connect, which has no context
            self._begin(describe(spark, datetime.now(UTC)), configuration_of(spark))
        if self._work is not None and not self._listens:
            self._listens = True
            self._work.listen(spark)

    def end(self, error: BaseException | None) -> None:
        if not self._begun:
            self._begin(Application(None, self._job, unheard=uuid.uuid4().hex), _submitted())
        if self._work is None:
            return
        if self._work.name in NAMES:
            self._work.close()
        else:
            self._work.end(error, until="block")

    def _begin(self, application: Application, configuration: Mapping[str, str]) -> None:
        self._begun = True
        required = False
        try:
            required = flag(configuration.get, REQUIRED)
            settings = read_settings(configuration)
            named = configuration.get("spark.app.name")
            # spark-submit calls an application without a name by the file that it is given: the wrapper's.
            name = configuration.get(NAME) or (self._job if named in (None, _OURS) else named)
            self._work = Work(name, application, settings, dict, required=required)
        except (InterlockError, OSError) as problem:
            if required:
                raise
            log.warning("the end of this application is not told; its result stands: %s", problem)


@contextmanager
def _hooks(
    context_made: Callable[[SparkContext], None], session_made: Callable[[SparkSession], None]
) -> Iterator[None]:
    """Calls back after each context and session that is made meanwhile, and lets nothing of ours fail it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    made: list[tuple[type, Callable[[Any], None]]] = [
        (SparkContext, context_made),
        (SparkSession, session_made),
    ]
    try:
        from pyspark.sql.connect.session import SparkSession as ConnectSession
    except ImportError:  # its packages are an extra of pyspark
        pass
    else:
        made.append((ConnectSession, session_made))
    before = [(kind, kind.__init__) for kind, _ in made]  # type: ignore[misc]
    for kind, call in made:
        kind.__init__ = _then(kind.__init__, call)  # type: ignore[misc]
    try:
        yield
    finally:
        for kind, init in before:
            kind.__init__ = init  # type: ignore[misc]


def _then(init: Callable[..., None], call: Callable[[Any], None]) -> Callable[..., None]:
    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        init(self, *args, **kwargs)
        try:
            call(self)
        except (InterlockError, OSError):
            raise  # where the event is required
        except Exception as e:  # noqa: BLE001  # the job has its session, and that is what counts
            log.warning("this session is not listened to: %s", e)

    return __init__


def _submitted() -> dict[str, str]:
    """What spark-submit was given, for a job that ended before it made a session; nothing without it."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    try:
        SparkContext._ensure_initialized()
        return dict(SparkConf(_jvm=SparkContext._jvm).getAll())
    except Exception as e:  # noqa: BLE001  # py4j's, whatever became of the JVM
        log.warning("Spark's configuration cannot be read: %s", e)
        return {}
