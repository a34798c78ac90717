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
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log = logging.getLogger(__name__)

RUNS: Final = "_runs"
CHECKPOINT: Final = "_checkpoint"
MAX_OFFSETS: Final = 1_000_000
_POLL_S: Final = 5
_TAKE_OVERS: Final = 10  # times that an earlier run may still be in the way; it ends before its next batch
# As Spark writes them into the message of the exception.
_DATA_LOSS: Final = ("KAFKA_DATA_LOSS", "data may have been lost")
_NO_TOPIC: Final = ("UnknownTopicOrPartitionException",)
_TWO_RUNS: Final = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "CONCURRENT_QUERY",
    "Multiple streaming jobs detected",
    "Multiple streaming queries are concurrently using",
)


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
    batches = Batches(files, run)
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
    progress = Progress()
    for _ in range(_TAKE_OVERS):
        if went_through(writer, progress, batches, run):
            log.info("archived %d records", progress.records)
            return progress.records
        # Both wrote to the checkpoint's logs, and Spark ends who comes second, the later run as well.
        log.info("an earlier run was at it still: going on after it")
    raise PipelineError(f"other runs over {files.root} do not end: end them, and run one at a time")


def went_through(writer: DataStreamWriter, progress: Progress, batches: Batches, run: Run) -> bool:
    """Whether the query came to its end; False where an earlier one wrote to its checkpoint meanwhile."""
    try:
        query = writer.start()
        try:
            progress.follow(query)
        finally:
            query.stop()
    except Exception as error:
        if batches.error is not None:
            raise batches.error from None
        _check(run)  # once a later one has begun, all that Spark fails on may be that one's files
        if _says(error, _TWO_RUNS):
            return False
        if _says(error, _DATA_LOSS):
            raise PipelineError(
                "records that were not archived yet cannot be read any more: retention removed them, or their"
                " topic was deleted, made anew, or taken from those to read (the bus lists it no more). Go on"
                f" with what there is by --accept-loss. Spark says: {_first_line(error)}"
            ) from error
        if _says(error, _NO_TOPIC):
            raise PipelineError(
                "a topic to read is not in Kafka: make it, or take it from the bus's list or from --topic;"
                " where it was read before, go on without it by --accept-loss. Spark says:"
                f" {_first_line(error)}"
            ) from error
        raise
    return True


def _check(run: Run) -> None:
    """PipelineError where a later run has begun; storage that does not answer tells nothing of that."""
    try:
        run.check()
    except PipelineError:
        raise
    except Exception:  # what Spark failed on is told, most likely the same
        log.debug("it cannot be seen whether a later run has begun", exc_info=True)


class Batches:
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


class Progress:
    """What a run has done so far. `records`: of all batches."""

    def __init__(self) -> None:
        self.records = 0
        self._told = -1

    def follow(self, query: StreamingQuery) -> None:
        """Tell each batch in the log until the query ends."""
        ended = False
        while not ended:
            ended = bool(query.awaitTermination(_POLL_S))
            for batch in query.recentProgress:
                if batch.batchId > self._told and "addBatch" in batch.durationMs:
                    self._tell(batch)

    def _tell(self, batch: StreamingQueryProgress) -> None:
        self._told = batch.batchId
        self.records += batch.numInputRows
        log.info(
            "batch %d: %d records in %.1f s (%.0f/s), %d behind the end of the topics",
            batch.batchId,
            batch.numInputRows,
            batch.durationMs.get("triggerExecution", 0) / 1000,
            batch.processedRowsPerSecond or 0.0,
            sum(behind(source.endOffset, source.latestOffset) for source in batch.sources),
        )


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


def _first_line(error: Exception) -> str:
    """What comes after Spark's ids of the query."""
    return str(error).partition("terminated with exception: ")[2].partition("\n")[0] or str(error)[:300]


def _says(error: Exception, marks: Sequence[str]) -> bool:
    return any(mark in str(error) for mark in marks)
