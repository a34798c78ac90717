"""`completion_event`: emits an event when a block or function of a Spark job ends."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

from ...events.attributes import kind
from ...events.event import Event
from ...events.plain_text import takes_plain_text
from ..settings import CompletionError, read_settings
from .application import configuration_of, describe
from .arguments import check_name, check_outcome, check_session, checked_data
from .process_exit import PROCESS_EXIT, is_program
from .report import Report
from .tracker import Tracker, Until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Names used by blocks of this process; for these the job wrapper emits no event of its own.
BLOCK_NAMES: Final[set[str]] = set()
_USES: Final[dict[str, Iterator[int]]] = {}
P = ParamSpec("P")
R = TypeVar("R")


@takes_plain_text
def completion_event(
    spark: SparkSession,
    name: str,
    *,
    data: Mapping[str, object] | None = None,
    required: bool = False,
    until: Until | None = None,
) -> Completion:
    """A context manager around the work of a Spark application; it emits one event at the end.

        with completion_event(spark, "orders", data={"date": date}) as completion:
            orders.write.parquet(path)
            completion.data["output"] = path

    The event's type is `interlock.spark.application.succeeded` or `.failed`, its subject `name`, its source
    `/spark/<application name>`. Its data holds your members at top level, and `application`, `written` (what
    queries wrote), `airflow` (the task this runs for) and, after a failure, `error` (class, message with
    secrets redacted): docs/use/spark.md. Its id is computed from application, name, outcome and the number of
    the block with that name: a name may be used again, as in a loop over dates.

    The work failed if an exception leaves the block (it propagates) or if the process fails later. So the
    event is sent when the process exits; a failed block sends it at once. until="block" sends it when the
    block ends, which is the default in notebooks and forked processes. Under SparkSubmitEventOperator
    nothing is sent here: that task decides by the exit code.

    Meanwhile events of the session's queries and streaming queries are emitted (`spark.interlock.events`).
    Works with classic sessions and with Spark Connect. A missing or wrong setting (interlock.spark.settings)
    raises CompletionError on entry, before any work. The broker has `spark.interlock.delivery.timeout` (10s)
    to acknowledge (acks=all). A failed delivery is a warning and changes nothing else; with `required` it
    raises EmitError if the work succeeded, or the process ends with exit code 1.
    """
    return Completion(spark, name, data, required, until)


@takes_plain_text
def with_completion_event(
    name: str, *, data: Mapping[str, object] | None = None, required: bool = False, until: Until | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`completion_event` around a function. The session is the first SparkSession among the arguments, else
    the active one. Raises CompletionError if there is none. Wrong arguments raise when the function is
    defined."""
    call = "with_completion_event()"
    check_name(call, name)
    check_outcome(call, required, until)
    checked_data(call, data)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if not callable(function):
            raise CompletionError(f"{call}: it decorates {kind(function)}; write it above a function")

        @functools.wraps(function)
        def completing(*args: P.args, **kwargs: P.kwargs) -> R:
            spark = _session((*args, *kwargs.values()), name)
            with completion_event(spark, name, data=data, required=required, until=until):
                return function(*args, **kwargs)

        return completing

    return decorate


def _session(arguments: tuple[Any, ...], name: str) -> SparkSession:
    for argument in arguments:
        made_by = type(argument)  # by name: classic and Spark Connect sessions share no base class
        if made_by.__name__ == "SparkSession" and made_by.__module__.startswith("pyspark.sql"):
            return cast("SparkSession", argument)

    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkException:
        raise CompletionError(
            f"completion event {name!r}: no Spark session is active when the function starts. Create one"
            " before, or use completion_event() inside the function"
        ) from None


class Completion:
    """The context of `completion_event`. `data` may be filled until the block ends. `event` is the event made
    at that time; None before, and if it could not be made or sent."""

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        data: Mapping[str, object] | None,
        required: bool,
        until: Until | None,
    ) -> None:
        call = "completion_event()"
        check_session(call, spark)
        check_name(call, name)
        check_outcome(call, required, until)
        self.name = name
        self.data = checked_data(call, data)
        self.required = required
        self.event: Event | None = None
        self._spark, self._until = spark, until
        self._tracker: Tracker | None = None

    def __enter__(self) -> Completion:
        if is_program():
            PROCESS_EXIT.watch()  # SIGTERM inside the block fails it
        settings = read_settings(configuration_of(self._spark))
        application = describe(self._spark, datetime.now(UTC))
        use = next(_USES.setdefault(self.name, itertools.count(1)))
        begun = Report(self.name, application, required=self.required, use=use)
        tracker = Tracker(begun, settings, lambda: self.data)
        try:
            tracker.listen(self._spark)
        except BaseException:
            tracker.close()  # __exit__ will not be called
            raise
        BLOCK_NAMES.add(self.name)
        self._tracker = tracker
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tracker, self._tracker = self._tracker, None
        if tracker is None:
            raise CompletionError(f"completion event {self.name!r}: its block was not entered: use `with`")
        self.event = tracker.end(error, self._until)
