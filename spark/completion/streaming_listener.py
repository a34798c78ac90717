"""The streaming queries of a session, classic or Spark Connect, as Spark's listener for them tells."""

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
    """A run of a streaming query. id stays over restarts from a checkpoint, run_id does not.

    rows, batches: of this run. sink: as Spark describes it; None before the first batch. ended_at: None for
    one that has started.
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


Tell = Callable[[StreamingQuery], None]


def listen(spark: SparkSession, tell: Tell) -> Callable[[], None]:
    """Give each streaming query that starts, and each that ends, to `tell`; the result stops that."""
    listener = _listener(tell)
    streams = spark.streams
    if is_connect(spark):
        _unlock(streams)
    streams.addListener(listener)
    return lambda: streams.removeListener(listener)


def _unlock(streams: Any) -> None:
    """Let Spark Connect's bus post to listeners without its lock.

    Its `remove` holds the lock while it waits for the thread that posts (Spark 4.0.0): a stream that runs on
    would keep both waiting for ever.
    """
    bus = streams._sqlb

    def post_to_all(event: Any) -> None:
        unlocked = SimpleNamespace(_lock=nullcontext(), _listener_bus=list(bus._listener_bus))
        type(bus).post_to_all(unlocked, event)

    bus.post_to_all = post_to_all


def _listener(tell: Tell) -> StreamingQueryListener:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        """Keeps sums and hands on; Spark's listener bus waits for what happens here."""

        def __init__(self) -> None:
            self._running: dict[str, StreamingQuery] = {}

        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            run_id = str(event.runId)
            query = StreamingQuery(str(event.id), run_id, event.name, datetime.now(UTC))
            self._running[run_id] = query
            tell(query)

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
            if query is None:  # it started before this listened
                now = datetime.now(UTC)
                query = StreamingQuery(str(event.id), str(event.runId), None, now)
            tell(replace(query, ended_at=datetime.now(UTC), failure=_failure(event)))

    return Listener()


def _failure(event: Any) -> Failure | None:
    if event.exception is None:
        return None
    name = getattr(event, "errorClassOnException", None) or "StreamingQueryException"
    return Failure(str(name), redacted(str(event.exception)))
