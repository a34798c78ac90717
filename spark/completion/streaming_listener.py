"""The streaming queries of a session, classic or Spark Connect, from Spark's StreamingQueryListener."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .application import is_connect
from .outcome import Failure, redacted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener


@dataclass(frozen=True)
class StreamingQuery:
    """A run of a streaming query. A restart from a checkpoint keeps `id` and changes `run_id`.

    rows, batches: of this run; None if it started before this listener, as then started_at is not known
    either. sink: Spark's description; None before the first batch. ended_at: None at the start.
    """

    id: str
    run_id: str
    name: str | None
    started_at: datetime
    ended_at: datetime | None = None
    rows: int | None = 0
    batches: int | None = 0
    sink: str | None = None
    failure: Failure | None = None


Callback = Callable[[StreamingQuery], None]


class Streams:
    """The streaming queries of a session that run: {run id: query}, with the sums so far.

    Spark's thread changes it, and the end of the process reads it: each end is reported once.
    """

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self._running: dict[str, StreamingQuery] = {}

    @property
    def running(self) -> tuple[str, ...]:
        """The runs that have started and not ended."""
        return tuple(self._running)

    def started(self, query: StreamingQuery) -> None:
        self._running[query.run_id] = query
        self._callback(query)

    def progressed(self, run_id: str, rows: int, sink: str) -> None:
        query = self._running.get(run_id)
        if query is not None:
            batches = (query.batches or 0) + 1
            self._running[run_id] = replace(query, rows=(query.rows or 0) + rows, batches=batches, sink=sink)

    def ended(self, query: StreamingQuery, failure: Failure | None) -> None:
        """query: used only if its run is unknown, because it started before this listener."""
        known = self._running.pop(query.run_id, replace(query, rows=None, batches=None))
        self._callback(replace(known, ended_at=datetime.now(UTC), failure=failure))

    def end_all(self, failure: Failure | None) -> None:
        """Reports the end of all queries that still run: the process ends, and with it the queries."""
        for query in list(self._running.values()):
            if self._running.pop(query.run_id, None) is not None:  # it did not end meanwhile
                self._callback(replace(query, ended_at=datetime.now(UTC), failure=failure))


def listen(spark: SparkSession, callback: Callback) -> tuple[Streams, Callable[[], None]]:
    """Calls `callback` when a streaming query starts or ends. Returns the queries, and a function that stops
    this."""
    found = Streams(callback)
    listener = _listener(found)
    streams = spark.streams
    if is_connect(spark):
        _unlock(streams)
    streams.addListener(listener)
    return found, lambda: streams.removeListener(listener)


def _unlock(streams: Any) -> None:
    """Makes Spark Connect's bus post to listeners without its lock.

    Its `remove` holds the lock while it waits for the posting thread (Spark 4.0.0): with a stream that is
    still running both would deadlock.
    """
    bus = streams._sqlb

    def post_to_all(event: Any) -> None:
        unlocked = SimpleNamespace(_lock=nullcontext(), _listener_bus=list(bus._listener_bus))
        type(bus).post_to_all(unlocked, event)

    bus.post_to_all = post_to_all


def _listener(streams: Streams) -> StreamingQueryListener:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        """Passes on what Spark reports. It must be quick: Spark's listener bus waits for it."""

        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            streams.started(StreamingQuery(str(event.id), str(event.runId), event.name, datetime.now(UTC)))

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            progress = event.progress
            sink = redacted(str(progress.sink.description))
            streams.progressed(str(progress.runId), progress.numInputRows, sink)

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            pass

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            # without name and rows, for a query that started before this listener
            query = StreamingQuery(str(event.id), str(event.runId), None, datetime.now(UTC))
            streams.ended(query, _failure(event))

    return Listener()


def _failure(event: Any) -> Failure | None:
    if event.exception is None:
        return None
    name = getattr(event, "errorClassOnException", None) or "StreamingQueryException"
    return Failure(str(name), redacted(str(event.exception)))
