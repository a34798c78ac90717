"""From the topics into the archive, batch by batch.

1. Spark writes the offsets of batch n to the checkpoint.
2. The run writes the rows of these offsets to `batch=n.RUN`; the marker comes last.
3. Spark writes to the checkpoint that n is done.

After a crash Spark runs the batch that is not done again, with the same offsets. Before the marker the folder
does not count, and the repeat writes one of its own; after it the repeat finds that the batch is there.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .. import PipelineError
from ..rows import rows_of
from ..source import Bus
from .checkpoint import compare, tie
from .files import Files
from .layout import Folder, held
from .runs import Run, begin
from .storing import store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

RUNS: Final = "_runs"
CHECKPOINT: Final = "_checkpoint"
MAX_OFFSETS: Final = 1_000_000
_POLL_S: Final = 5
# As Spark writes them into the message of the exception.
_DATA_LOSS: Final = ("KAFKA_DATA_LOSS", "data may have been lost")
_TWO_RUNS: Final = ("CONCURRENT_STREAM_LOG_UPDATE", "CONCURRENT_QUERY", "Multiple streaming jobs detected")


@dataclass(frozen=True)
class Wanted:
    """What to archive, and where.

    checkpoint: folder of the offsets; None: `_checkpoint` in the archive. topics: () for the event topic,
    those that the bus lists, its action and subscription topic. every_ms: go on for ever, a batch at most so
    often; None: end at the end of the topics. max_offsets: of one batch. accept_loss: go on without records
    that were removed before they were archived.
    """

    archive: str
    checkpoint: str | None = None
    topics: Sequence[str] = ()
    every_ms: int | None = None
    max_offsets: int = MAX_OFFSETS
    accept_loss: bool = False


def archive(spark: SparkSession, bus: Bus, wanted: Wanted) -> int:
    """Archive the records of a bus; how many were archived.

    With `every_ms` it returns when the query is stopped.
    PipelineError where going on would lose records or archive some twice, and where another run takes over.
    What was archived before an error stays, and the next run goes on from there.
    """
    files = Files(spark, wanted.archive)
    checkpoint = Files(spark, wanted.checkpoint or files.path(CHECKPOINT))
    topics = tuple(wanted.topics) or (*bus.sources(spark), bus.topic("action"), bus.topic("subscription"))
    tie(files, checkpoint, bus.name)
    run = begin(files, RUNS)
    compare(files, checkpoint, accept_loss=wanted.accept_loss)
    log.info("archiving %s into %s", ", ".join(topics), files.root)
    batches = _Batches(files, run)
    stream = bus.stream(
        spark,
        topics,
        maxOffsetsPerTrigger=str(wanted.max_offsets),
        failOnDataLoss="false" if wanted.accept_loss else "true",
    )
    writer = (
        rows_of(stream, bus.name)
        .writeStream.queryName("archive")
        .option("checkpointLocation", checkpoint.root)
        .foreachBatch(batches.write)
    )
    if wanted.every_ms is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{wanted.every_ms} milliseconds")
    query: StreamingQuery | None = None
    try:
        query = writer.start()
        return _followed(query)
    except Exception as error:
        if batches.error is not None:
            raise batches.error from None
        raise _explained(error, files) from error
    finally:
        if query is not None:
            query.stop()


class _Batches:
    """What writes each batch. error: of ours, in a batch."""

    def __init__(self, files: Files, run: Run) -> None:
        self._files = files
        self._run = run
        self.error: PipelineError | None = None

    def write(self, rows: DataFrame, number: int) -> None:
        try:
            self._run.check()
            if (there := held(self._files, number)) is not None:
                log.info(
                    "batch %d is there, in %s: the run before this one was ended after it", number, there
                )
                return
            # The stream's session has it off, for the state of streams; these rows have none.
            rows.sparkSession.conf.set("spark.sql.adaptive.enabled", "true")
            store(rows, self._files, Folder(number, number, self._run.name))
        except PipelineError as error:
            self.error = error
            raise


def _followed(query: StreamingQuery) -> int:
    """The records of all batches until the query ends; each batch is told in the log."""
    told, total = -1, 0
    ended = False
    while not ended:
        ended = bool(query.awaitTermination(_POLL_S))
        for progress in query.recentProgress:
            if progress.batchId <= told or "addBatch" not in progress.durationMs:
                continue
            told = progress.batchId
            total += progress.numInputRows
            log.info(
                "batch %d: %d records in %.1f s (%.0f/s), %d behind the end of the topics",
                told,
                progress.numInputRows,
                progress.durationMs.get("triggerExecution", 0) / 1000,
                progress.processedRowsPerSecond or 0.0,
                sum(behind(source.endOffset, source.latestOffset) for source in progress.sources),
            )
    log.info("archived %d records", total)
    return total


def behind(at: str | None, latest: str | None) -> int:
    """How many offsets lie between two positions, in Spark's JSON: {topic: {partition: offset}}."""
    ends, reached = _offsets(latest), _offsets(at)
    return sum(
        max(0, int(end) - int(reached.get(topic, {}).get(partition, 0)))
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    )


def _offsets(text: str | None) -> Mapping[str, Mapping[str, Any]]:
    try:
        found = json.loads(text or "")
    except ValueError:  # PySpark's "None", of a batch that is repeated
        return {}
    return found if isinstance(found, dict) else {}


def _explained(error: Exception, files: Files) -> Exception:
    """What Spark's error means here; the error itself where it is none of those that are expected."""
    text = str(error)
    if any(each in text for each in _DATA_LOSS):
        return PipelineError(
            "records that were not archived yet are gone from a topic, or a whole topic is: retention removed"
            " them, or the topic was made anew. Go on with what there is by --accept-loss. Spark says:"
            f" {text.splitlines()[0]}"
        )
    if any(each in text for each in _TWO_RUNS):
        return PipelineError(
            f"another run over {files.root} is under way: this one ends, and the other goes on. Run one at a"
            " time"
        )
    return error
