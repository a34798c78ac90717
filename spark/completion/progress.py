"""The events emitted while an application runs: of its start, its queries and its streaming queries.

Callbacks build an event and queue it; a thread sends it, and only the end of the block waits for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ...events.errors import EventError
from ...events.schemas import SPARK, SPARK_QUERY, SPARK_STREAMING_QUERY
from ...events.taxonomy import SPARK_APPLICATION_STARTED, SPARK_QUERY_TYPES, SPARK_STREAMING_QUERY_TYPES
from ...events.visible import visible_logger
from ..settings import CompletionSettings
from .application import is_connect, milliseconds, session_of
from .open_blocks import OpenBlock
from .outcome import failure_of
from .process_exit import PROCESS_EXIT, is_program
from .query_listener import Query, QueryListener, Written, quietly, wait_until_delivered
from .report import Report
from .sender import sender_for
from .streaming_listener import StreamingQuery, Streams, listen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = visible_logger(__name__)

MAX_OUTPUTS: Final = 100  # listed in the event of the application
_STARTED: Final[set[tuple[object, ...]]] = set()  # starts emitted by this process: name, use, application


class ProgressEvents:
    """Emits the events of one block, or of the wrapped job, until `close`.

    begun: the report of the work at its start. data: returns the user's members when an event is made.
    """

    def __init__(
        self, begun: Report, settings: CompletionSettings, data: Callable[[], Mapping[str, Any]]
    ) -> None:
        self._begun, self._settings, self._data = begun, settings, data
        self._sender = sender_for(settings)
        if settings.report_folder is None or settings.kinds or settings.started:
            self._sender.connect()
        self._written = _Sum()
        self._closers: list[Callable[[float], None]] = []
        if settings.started:
            self._emit_started()

    def listen(self, spark: SparkSession) -> None:
        """Listens to the session for the kinds of events in `settings.kinds`.

        An error of Spark's is raised; `close` then ends what has begun.
        """
        if not self._settings.kinds:
            return
        block = OpenBlock(session_of(spark))
        try:
            self._listen(spark, block)
        finally:
            self._closers.append(lambda _timeout_s: block.close())  # the last one: the others need it open

    def _listen(self, spark: SparkSession, block: OpenBlock) -> None:
        classic = not is_connect(spark)
        if self._settings.kinds & {"write", "query"} and classic:
            self._closers.append(QueryListener(spark, self._query_ended, block.emits_query).close)
        if "streaming" in self._settings.kinds:

            def on_stream(query: StreamingQuery) -> None:
                if block.emits_stream(query.run_id, ended=query.ended_at is not None):
                    self._streaming_query(query)

            streams, stop = listen(spark, on_stream)
            if classic:
                self._closers.append(lambda timeout_s: wait_until_delivered(spark.sparkContext, timeout_s))
            self._closers.append(lambda _timeout_s: _stop(block, streams, stop, may_listen_on=classic))

    def written(self) -> dict[str, Any] | None:
        """What queries have written so far; None if no write is known."""
        return self._written.to_data()

    def close(self) -> None:
        """Stops listening. Waits up to the sender's timeout until all events so far are acknowledged."""
        deadline = time.monotonic() + self._sender.timeout_s
        for close in self._closers:
            close(_left(deadline))
        self._closers.clear()
        self._sender.flush(_left(deadline))

    def _emit_started(self) -> None:
        use, application = self._begun.use, self._begun.application
        identity = ("started",) if use == 1 else ("started", str(use))
        if (self._begun.name, use, application.identity) in _STARTED:
            return  # the job wrapper emitted it before a block of the same name took over
        _STARTED.add((self._begun.name, use, application.identity))
        started = application.started_at or datetime.now(UTC)
        about = application.to_data(started)
        del about["duration_ms"]
        self._put(SPARK_APPLICATION_STARTED, SPARK, identity, started, {}, about)

    def _query_ended(self, query: Query, emits: bool) -> None:
        """Counts what a query wrote; emits its event if this block `emits` it, not a block inside it."""
        if query.written is not None and query.failure is None:
            self._written.add(query.written)
        elif "query" not in self._settings.kinds and query.written is None:
            return
        if not emits:
            return
        about: dict[str, Any] = {"id": query.id, "action": query.action, "duration_ms": query.duration_ms}
        if query.written is not None:
            about["written"] = query.written.to_data()
        more: dict[str, Any] = {"query": about}
        if query.failure is not None:
            more["error"] = query.failure.to_data()
        outcome = "succeeded" if query.failure is None else "failed"
        identity = ("query", str(query.id), outcome)
        self._put(SPARK_QUERY_TYPES[outcome], SPARK_QUERY, identity, datetime.now(UTC), more)

    def _streaming_query(self, query: StreamingQuery) -> None:
        outcome = "succeeded" if query.failure is None else "failed"
        about: dict[str, Any] = {
            "id": query.id,
            "run_id": query.run_id,
            "name": query.name,
            "started_at": query.started_at.isoformat(),
        }
        if query.ended_at is None:
            if not self._settings.started:
                return
            outcome = "started"
        else:
            about["sink"] = query.sink
            if query.rows is not None:
                took_ms = milliseconds(query.started_at, query.ended_at)
                about |= {"duration_ms": took_ms, "rows": query.rows, "batches": query.batches}
        more: dict[str, Any] = {"streaming_query": about}
        if query.failure is not None:
            more["error"] = query.failure.to_data()
        identity = ("streaming", query.run_id, outcome)
        self._put(
            SPARK_STREAMING_QUERY_TYPES[outcome],
            SPARK_STREAMING_QUERY,
            identity,
            query.ended_at or query.started_at,
            more,
        )

    def _put(
        self,
        event_type: str,
        schema: str,
        identity: tuple[str, ...],
        time: datetime,
        more: Mapping[str, Any],
        application: Mapping[str, Any] | None = None,
    ) -> None:
        begun = self._begun.application
        data: dict[str, Any] = {
            **self._data(),
            "application": application or {"id": begun.id, "name": begun.name, "user": begun.user},
            **more,
        }
        try:
            event = self._begun.new_event(event_type, schema, identity, time, data)
        except EventError as e:
            log.warning("event %s of %r was not emitted: %s", event_type, self._begun.name, e)
            return
        self._sender.put(event)


def _stop(block: OpenBlock, streams: Streams, stop: Callable[[], None], *, may_listen_on: bool) -> None:
    """Stops listening to streams, unless streams of the block still run and `may_listen_on`.

    When the process ends, those that still run are reported as ended: Spark does not report their end.
    may_listen_on: False under Spark Connect, where a listener keeps the process alive.
    """
    kept = is_program() and block.keep_streams(streams.running)
    if not (kept and may_listen_on):
        quietly(stop)
    if kept:
        PROCESS_EXIT.add_callback(lambda error: streams.end_all(failure_of(error)))


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


class _Sum:
    """The sum of what queries wrote. A listener's thread adds, the job's thread reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries = 0
        self._known: dict[str, int] = {}
        self._outputs: dict[str, None] = {}

    def add(self, written: Written) -> None:
        with self._lock:
            self._queries += 1
            for name, value in (("rows", written.rows), ("bytes", written.bytes)):
                if value is not None:
                    self._known[name] = self._known.get(name, 0) + value
            where = written.table or written.path
            if where and len(self._outputs) < MAX_OUTPUTS:
                self._outputs[where] = None

    def to_data(self) -> dict[str, Any] | None:
        with self._lock:
            if not self._queries:
                return None
            return {"queries": self._queries, **self._known, "outputs": list(self._outputs)}
