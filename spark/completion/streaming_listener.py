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

    rows, batches: of this run. sink: Spark's description; None before the first batch. ended_at: None at the
    start.
    """

    id: str
    run_id: str
    name: str | None
    started_at: datetime
    ended_at: datetime | None = None
    rows: int = 0
    batches: int = 0
    sink: str | None = None
    failure: Failure | None = None


Callback = Callable[[StreamingQuery], None]


def listen(spark: SparkSession, callback: Callback) -> Callable[[], None]:
    """Calls `callback` when a streaming query starts or ends. Returns a function that stops this."""
    listener = _listener(callback)
    streams = spark.streams
    if is_connect(spark):
        _unlock(streams)
    streams.addListener(listener)
    return lambda: streams.removeListener(listener)


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


def _listener(callback: Callback) -> StreamingQueryListener:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        """Keeps sums and passes them on. It must be quick: Spark's listener bus waits for it."""

        def __init__(self) -> None:
            self._running: dict[str, StreamingQuery] = {}

        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            run_id = str(event.runId)
            query = StreamingQuery(str(event.id), run_id, event.name, datetime.now(UTC))
            self._running[run_id] = query
            callback(query)

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            progress = event.progress
            query = self._running.get(str(progress.runId))
            if query is not None:
                self._running[query.run_id] = replace(
                    query,
                    rows=query.rows + progress.numInputRows,
                    batches=query.batches + 1,
                    sink=redacted(str(progress.sink.description)),
                )

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            pass

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            query = self._running.pop(str(event.runId), None)
            if query is None:  # it started before this listener
                now = datetime.now(UTC)
                query = StreamingQuery(str(event.id), str(event.runId), None, now)
            callback(replace(query, ended_at=datetime.now(UTC), failure=_failure(event)))

    return Listener()


def _failure(event: Any) -> Failure | None:
    if event.exception is None:
        return None
    name = getattr(event, "errorClassOnException", None) or "StreamingQueryException"
    return Failure(str(name), redacted(str(event.exception)))
