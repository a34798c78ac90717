"""`completion_event`: a block or function of a Spark job whose end is an event."""

from __future__ import annotations

import functools
import itertools
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

from ...events.event import Event
from ..settings import RESERVED, CompletionError, read_settings
from .application import configuration_of, describe
from .process_exit import PROCESS_END, is_program
from .tracker import Until, Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Names that blocks of this process tell of; the wrapper leaves those to them.
NAMES: Final[set[str]] = set()
_USES: Final[dict[str, Iterator[int]]] = {}
P = ParamSpec("P")
R = TypeVar("R")


def completion_event(
    spark: SparkSession,
    name: str,
    *,
    data: Mapping[str, object] | None = None,
    required: bool = False,
    until: Until | None = None,
) -> Completion:
    """A context manager around the work of a Spark application, whose end is one event.

        with completion_event(spark, "orders", data={"date": date}) as completion:
            orders.write.parquet(path)
            completion.data["output"] = path

    The event's type is `interlock.spark.application.succeeded` or `.failed`, its subject `name`, its source
    `/spark/<application name>`. Its data is the author's, at top level, with `application`, `written` (what
    queries wrote), `airflow` (the task this runs for) and, after a failure, `error` (class, message without
    what looks like a secret): docs/use/spark.md. Its id follows from application, name and outcome, and
    from which block of that name it was: a name may be used again, as in a loop over dates.

    It failed if an exception leaves the block, which goes on to the caller, or if the process fails after it:
    it is sent at the end of the process. until="block" sends it when the block ends, which is what happens
    by itself in notebooks and forked processes. Submitted by SparkSubmitEventOperator nothing is sent here:
    that task decides by the exit code.

    Queries and streaming queries of the session are told meanwhile, as `spark.interlock.events` says. Works
    with classic sessions and with Spark Connect. A missing or wrong setting (interlock.spark.settings) raises
    CompletionError on entry, before any work is done. The broker has `spark.interlock.delivery.timeout` (10s)
    to acknowledge (acks=all). An event that could not be sent is a warning and changes nothing else; with
    `required` it raises EmitError if the work was successful, or ends the process with exit code 1.
    """
    return Completion(spark, name, data or {}, required, until)


def with_completion_event(
    name: str,
    *,
    data: Mapping[str, object] | None = None,
    required: bool = False,
    until: Until | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`completion_event` around a function. The session is the first argument that is one, else the active
    one; CompletionError where there is none."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            spark = _session((*args, *kwargs.values()), name)
            with completion_event(spark, name, data=data, required=required, until=until):
                return function(*args, **kwargs)

        return call

    return decorate


def _session(arguments: tuple[Any, ...], name: str) -> SparkSession:
    for argument in arguments:
        kind = type(argument)  # classic, or of Spark Connect: two classes without a common one
        if kind.__name__ == "SparkSession" and kind.__module__.startswith("pyspark.sql"):
            return cast("SparkSession", argument)

    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkException:
        raise CompletionError(
            f"no session is active when the function of completion event {name!r} begins: make one before,"
            " or use completion_event() inside the function"
        ) from None


class AuthorData(UserDict[str, object]):
    """The author's part of an event's data; refuses the keys that Interlock fills."""

    def __setitem__(self, key: str, item: object) -> None:
        if key in RESERVED:
            raise CompletionError(f"{key!r} in a completion event's data is Interlock's; choose another key")
        super().__setitem__(key, item)


class Completion:
    """What `completion_event` gives. `data` may be filled until the block ends; `event` is there after it,
    as it would be sent then."""

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        data: Mapping[str, object],
        required: bool,
        until: Until | None,
    ) -> None:
        if not name:
            raise CompletionError("a completion event needs a name: it becomes the event's subject")
        if until not in (None, "exit", "block"):
            raise CompletionError(f'until is {until!r}: it is "exit" or "block"')
        self.name = name
        self.data = AuthorData(data)
        self.required = required
        self.event: Event | None = None
        self._spark, self._until = spark, until
        self._work: Work | None = None

    def __enter__(self) -> Completion:
        if is_program():
            PROCESS_END.watch()  # SIGTERM in the block is its failure
        settings = read_settings(configuration_of(self._spark))
        application = describe(self._spark, datetime.now(UTC))
        use = next(_USES.setdefault(self.name, itertools.count(1)))
        work = Work(self.name, application, settings, lambda: self.data, required=self.required, use=use)
        work.listen(self._spark)
        NAMES.add(self.name)
        self._work = work
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        work, self._work = self._work, None
        if work is None:
            raise CompletionError(f"the block of completion event {self.name!r} ended without being entered")
        self.event = work.end(error, self._until)
