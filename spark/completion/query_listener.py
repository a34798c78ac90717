"""The queries that a classic session runs, as Spark's QueryExecutionListener tells them.

Spark calls it in the thread of its listener bus, which must not wait: callbacks put what they are given into
a queue, and a thread of ours asks the JVM for the rest (measured: a callback of 5 ms loses events of the
application). There is no such listener in Spark Connect.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .outcome import Failure, redacted

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_INSERT: Final = "InsertIntoHadoopFsRelationCommand"
# ReplaceData and WriteDelta are what MERGE, UPDATE and DELETE become.
_V2_WRITES: Final = (
    "AppendData",
    "OverwriteByExpression",
    "OverwritePartitionsDynamic",
    "ReplaceData",
    "WriteDelta",
)
_NS_IN_MS: Final = 1_000_000
# {class of a plan that stands around another one: how it gives it}
_WRAPPERS: Final = {"AdaptiveSparkPlanExec": "executedPlan", "ResultQueryStageExec": "plan"}


@dataclass(frozen=True)
class Written:
    """What a query wrote. path, table: where Spark knows them. rows, bytes, files: None where it does not."""

    path: str | None = None
    table: str | None = None
    rows: int | None = None
    bytes: int | None = None
    files: int | None = None

    def to_data(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Query:
    """A query that ended. id: unique in its application. action: Spark's word, `command` for most writes.

    written: None for a query that writes nothing.
    """

    id: int
    action: str
    duration_ms: int
    written: Written | None
    failure: Failure | None


class QueryListener:
    """Gives each query that ends in a session to `tell`, in a thread of its own; nothing here raises.

    first: asked as a query ends; `tell` gets the answer with it.
    """

    def __init__(
        self, spark: SparkSession, tell: Callable[[Query, bool], None], first: Callable[[], bool]
    ) -> None:
        from pyspark.java_gateway import ensure_callback_server_started

        self._tell = tell
        self._ended: queue.SimpleQueue[tuple[bool, str, Any, int, Any] | None] = queue.SimpleQueue()
        self._context = spark.sparkContext
        self._manager = spark._jsparkSession.listenerManager()
        self._thread = threading.Thread(target=self._run, name="interlock-spark-queries", daemon=True)
        ensure_callback_server_started(self._context._gateway)  # type: ignore[no-untyped-call]
        self._callbacks = _Callbacks(self._ended, first)
        self._manager.register(self._callbacks)
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Tell what has ended by now, within the time, and listen no more."""
        deadline = time.monotonic() + timeout_s
        if self._context._jsc is not None:
            wait_until_told(self._context, timeout_s)
            quietly(lambda: self._manager.unregister(self._callbacks))
        self._callbacks.listening = False
        self._ended.put(None)
        self._thread.join(max(0.1, deadline - time.monotonic()))

    def _run(self) -> None:
        while (ended := self._ended.get()) is not None:
            first, *query = ended
            try:
                self._tell(_query(*query), first)
            except Exception as e:  # noqa: BLE001  # a JVM that is gone, a plan of a kind of its own
                log.warning("a query that ended cannot be told: %s", redacted(str(e)))


def wait_until_told(context: SparkContext, timeout_s: float) -> None:
    """Until listeners know all that has happened in an application, within the time; nothing is raised."""
    if context._jsc is not None:  # else stop() has emptied the bus
        quietly(lambda: context._jsc.sc().listenerBus().waitUntilEmpty(int(timeout_s * 1000)))


def quietly(call: Callable[[], object]) -> None:
    """Ask the JVM; an error of it is a line of the log at DEBUG."""
    try:
        call()
    except Exception as e:  # noqa: BLE001  # the JVM may be gone, and the job's end is not ours to change
        log.debug("Spark does not answer: %s", e)


class _Callbacks:
    """What the JVM calls: org.apache.spark.sql.util.QueryExecutionListener."""

    def __init__(self, ended: queue.SimpleQueue[Any], first: Callable[[], bool]) -> None:
        self._ended, self._first = ended, first
        self.listening = True

    def onSuccess(self, action: str, execution: Any, duration_ns: int) -> None:  # noqa: N802
        self._put(action, execution, duration_ns, None)

    def onFailure(self, action: str, execution: Any, error: Any) -> None:  # noqa: N802
        self._put(action, execution, 0, error)

    def _put(self, *ended: Any) -> None:
        # A session that was cloned meanwhile, as each stream's is, has this listener for good.
        if self.listening:
            self._ended.put((self._first(), *ended))

    def hashCode(self) -> int:  # noqa: N802
        return id(self) % 2**31

    def equals(self, other: object) -> bool:
        return self is other

    def toString(self) -> str:  # noqa: N802
        return "interlock"

    class Java:
        implements: Final = ["org.apache.spark.sql.util.QueryExecutionListener"]


def _query(action: str, execution: Any, duration_ns: int, error: Any) -> Query:
    failure = None
    if error is not None:
        failure = Failure(error.getClass().getName(), redacted(str(error.getMessage())))
    return Query(
        id=execution.id(),
        action=action,
        duration_ms=duration_ns // _NS_IN_MS,
        written=_written(execution),
        failure=failure,
    )


def _written(execution: Any) -> Written | None:
    """By its command in Spark's classic writes, by its table in those of DataSource V2."""
    analyzed = execution.analyzed()
    kind = analyzed.getClass().getSimpleName()
    if kind == _INSERT:
        metrics = _metrics(_final(execution.executedPlan()))
        table = analyzed.catalogTable()
        return Written(
            path=redacted(str(analyzed.outputPath())),
            table=table.get().identifier().unquotedString() if table.isDefined() else None,
            rows=metrics.get("numOutputRows"),
            bytes=metrics.get("numOutputBytes"),
            files=metrics.get("numFiles"),
        )
    if kind in _V2_WRITES:
        return Written(table=str(analyzed.table().name()))
    if kind == "SaveIntoDataSourceCommand":
        path = analyzed.options().get("path")
        return Written(path=redacted(str(path.get())) if path.isDefined() else None)
    if kind in ("InsertIntoDataSourceCommand", "InsertIntoHiveTable"):
        return Written()
    return None


def _final(plan: Any) -> Any:
    """The plan that ran: adaptive execution wraps one that shuffles, and has no figures of its own."""
    while (kind := plan.getClass().getSimpleName()) in _WRAPPERS:
        plan = getattr(plan, _WRAPPERS[kind])()
    return plan


def _metrics(plan: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    metrics = plan.metrics().iterator()
    while metrics.hasNext():
        metric = metrics.next()
        found[metric._1()] = metric._2().value()
    return found
