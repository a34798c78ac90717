"""The queries of a classic session, from Spark's QueryExecutionListener. Spark Connect has no such listener.

Spark calls it in the thread of its listener bus, which must not block (measured: callbacks of 5 ms make Spark
drop events of the application). So callbacks only fill a queue, and our own thread asks the JVM for details.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...events.visible import visible_logger
from .outcome import Failure, redacted, text_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = visible_logger(__name__)

_INSERT: Final = "InsertIntoHadoopFsRelationCommand"
# Spark turns MERGE, UPDATE and DELETE into ReplaceData or WriteDelta.
_V2_WRITES: Final = (
    "AppendData",
    "OverwriteByExpression",
    "OverwritePartitionsDynamic",
    "ReplaceData",
    "WriteDelta",
)
_NS_IN_MS: Final = 1_000_000
# {class of a plan that wraps another one: its method that returns it}
_WRAPPERS: Final = {"AdaptiveSparkPlanExec": "executedPlan", "ResultQueryStageExec": "plan"}


@dataclass(frozen=True)
class Written:
    """What a query wrote. Members are None where Spark does not know them."""

    path: str | None = None
    table: str | None = None
    rows: int | None = None
    bytes: int | None = None
    files: int | None = None

    def to_data(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Query:
    """A query that ended.

    id: unique in its application. action: Spark's name for it, `command` for most writes. written: None for
    a query that writes nothing.
    """

    id: int
    action: str
    duration_ms: int
    written: Written | None
    failure: Failure | None


class QueryListener:
    """Calls `on_end(query, emits)` for each query of a session that ends, in a thread of its own.

    emits: the result of `emits()` when the query ended: whether the block that listens emits its event.
    Errors are logged, not raised.
    """

    def __init__(
        self, spark: SparkSession, on_end: Callable[[Query, bool], None], emits: Callable[[], bool]
    ) -> None:
        from pyspark.java_gateway import ensure_callback_server_started

        self._on_end = on_end
        self._ended: queue.SimpleQueue[tuple[bool, str, Any, int, Any] | None] = queue.SimpleQueue()
        self._context = spark.sparkContext
        self._manager = spark._jsparkSession.listenerManager()
        self._thread = threading.Thread(target=self._run, name="interlock-spark-queries", daemon=True)
        ensure_callback_server_started(self._context._gateway)  # type: ignore[no-untyped-call]
        self._callbacks = _Callbacks(self._ended, emits)
        self._manager.register(self._callbacks)
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Stops listening, after the queries that have ended so far were handled or the time is up."""
        deadline = time.monotonic() + timeout_s
        if self._context._jsc is not None:
            wait_until_delivered(self._context, timeout_s)
            quietly(lambda: self._manager.unregister(self._callbacks))
        self._callbacks.listening = False
        self._ended.put(None)
        self._thread.join(max(0.1, deadline - time.monotonic()))

    def _run(self) -> None:
        while (ended := self._ended.get()) is not None:
            emits, *query = ended
            try:
                self._on_end(_query(*query), emits)
            except Exception as e:  # noqa: BLE001  # the JVM is gone, or the plan has an unusual form
                log.warning("no event for an ended query, because it cannot be read: %s", text_of(e))


def wait_until_delivered(context: SparkContext, timeout_s: float) -> None:
    """Waits up to `timeout_s` until Spark has delivered all events to its listeners. Raises nothing."""
    if context._jsc is not None:  # otherwise stop() has emptied the bus
        quietly(lambda: context._jsc.sc().listenerBus().waitUntilEmpty(int(timeout_s * 1000)))


def quietly(call: Callable[[], object]) -> None:
    """Calls the JVM; an error is logged at DEBUG."""
    try:
        call()
    except Exception as e:  # noqa: BLE001  # the JVM may be gone, which must not change the job's outcome
        log.debug("Spark does not answer: %s", e)


class _Callbacks:
    """The listener that the JVM calls: org.apache.spark.sql.util.QueryExecutionListener."""

    def __init__(self, ended: queue.SimpleQueue[Any], emits: Callable[[], bool]) -> None:
        self._ended, self._emits = ended, emits
        self.listening = True

    def onSuccess(self, action: str, execution: Any, duration_ns: int) -> None:  # noqa: N802
        self._put(action, execution, duration_ns, None)

    def onFailure(self, action: str, execution: Any, error: Any) -> None:  # noqa: N802
        self._put(action, execution, 0, error)

    def _put(self, *ended: Any) -> None:
        # A session cloned meanwhile, as for each stream, keeps this listener for ever.
        if self.listening:
            self._ended.put((self._emits(), *ended))

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
    """What a query wrote, from the command of a classic write; a DataSource V2 write has only its table."""
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
    """The plan that ran: adaptive execution wraps it, and the wrapper has no metrics."""
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
