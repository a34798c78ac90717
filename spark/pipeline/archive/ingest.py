"""Archives the topics batch by batch.

1. Spark writes the offsets of batch n to the checkpoint.
2. The run writes the rows of these offsets to `batch=n.RUN`, the marker last.
3. Spark records in the checkpoint that n is done.

After a crash Spark repeats the batch that is not done, with the same offsets. Without the marker the folder
is not valid, and the repeat writes its own; with it, the repeat skips the batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ....events.visible import visible_logger
from .. import PipelineError
from ..rows import rows_of
from ..source import DATA_LOSS, BusTopics
from .checkpoint import check_batches, check_pair, check_topics
from .files import Files
from .layout import Folder, folder_of_batch, write_folder
from .runs import ArchiveRun, begin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log = visible_logger(__name__)

RUNS: Final = "_runs"
CHECKPOINT: Final = "_checkpoint"
MAX_OFFSETS: Final = 1_000_000
_POLL_S: Final = 5
_TAKE_OVERS: Final = 10  # attempts while an earlier run still writes; it ends before its next batch
# Texts in the messages of Spark's exceptions.
_NO_TOPIC: Final = ("UnknownTopicOrPartitionException",)
_TWO_RUNS: Final = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "CONCURRENT_QUERY",
    "Multiple streaming jobs detected",
    "Multiple streaming queries are concurrently using",
)


@dataclass(frozen=True)
class IngestOptions:
    """What to archive, and where.

    checkpoint: folder of the offsets; None: `_checkpoint` in the archive.
    topics: () means the event topic, the bus's listed topics, its action and subscription topic.
    every_ms: run until stopped, with one batch per this interval; None: stop at the end of the topics.
    max_offsets: of one batch. accept_loss: continue without records that were removed before being archived.
    """

    archive: str
    checkpoint: str | None = None
    topics: Sequence[str] = ()
    every_ms: int | None = None
    max_offsets: int = MAX_OFFSETS
    accept_loss: bool = False


def archive(spark: SparkSession, bus: BusTopics, options: IngestOptions) -> int:
    """Archives the records of a bus. Returns how many it archived.

    With `every_ms` it returns when the query is stopped. Raises PipelineError if continuing would lose
    records or archive some twice, and if another run has begun. What was archived before an error stays, and
    the next run continues from there.
    """
    files = Files(spark, options.archive)
    checkpoint = Files(spark, options.checkpoint or files.path(CHECKPOINT))
    topics = tuple(options.topics) or (*bus.sources(spark), bus.topic("action"), bus.topic("subscription"))
    check_pair(files, checkpoint, bus.name)
    run = begin(files, RUNS)
    check_batches(files, checkpoint, accept_loss=options.accept_loss)
    check_topics(files, bus.topic_ids(spark, topics), accept_loss=options.accept_loss)
    log.info("archiving %s into %s", ", ".join(topics), files.root)
    batches = Batches(files, run)
    stream = bus.stream(
        spark,
        topics,
        maxOffsetsPerTrigger=str(options.max_offsets),
        failOnDataLoss="false" if options.accept_loss else "true",
    )
    writer = (
        rows_of(stream, bus.name, bus.cloudevents(spark), bus.proof)
        .writeStream.queryName("archive")
        .option("checkpointLocation", checkpoint.root)
        .foreachBatch(batches.write)
    )
    if options.every_ms is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{options.every_ms} milliseconds")
    batch_log = BatchLog()
    for _ in range(_TAKE_OVERS):
        if ran_to_end(writer, batch_log, batches, run):
            log.info("archived %d records", batch_log.records)
            return batch_log.records
        # Both wrote to the checkpoint's logs. Spark ends the second writer, which may be the later run.
        log.info("an earlier run still writes to the checkpoint: trying again")
    raise PipelineError(f"other runs over {files.root} do not end: stop them, and run one at a time")


def ran_to_end(writer: DataStreamWriter, batch_log: BatchLog, batches: Batches, run: ArchiveRun) -> bool:
    """Runs the query. Returns False if Spark ended it because an earlier run still wrote to the
    checkpoint."""
    try:
        query = writer.start()
        try:
            batch_log.follow(query)
        finally:
            query.stop()
    except Exception as error:
        if batches.error is not None:
            raise batches.error from None
        _check(run)  # a later run's files can cause any failure of Spark
        if _mentions(error, _TWO_RUNS):
            return False
        if _mentions(error, DATA_LOSS):
            raise PipelineError(
                "some records were lost before they were archived: retention removed them, or their topic was"
                " deleted, created again, or is no longer read (the bus does not list it). Continue without"
                f" them: --accept-loss. Spark's message: {_first_line(error)}"
            ) from error
        if _mentions(error, _NO_TOPIC):
            raise PipelineError(
                "a topic to read does not exist in Kafka: create it, or remove it from the bus's list or from"
                " --topic; if it was read before, continue without it: --accept-loss. Spark's message:"
                f" {_first_line(error)}"
            ) from error
        raise
    return True


def _check(run: ArchiveRun) -> None:
    """Raises PipelineError if a later run has begun. Ignores errors of the storage."""
    try:
        run.check()
    except PipelineError:
        raise
    except Exception:  # the caller raises Spark's error, which most likely has the same cause
        log.debug("cannot check whether a later run has begun", exc_info=True)


class Batches:
    """Writes each batch. error: our own error in a batch, which Spark hides in its exception."""

    def __init__(self, files: Files, run: ArchiveRun) -> None:
        self._files = files
        self._run = run
        self.error: PipelineError | None = None

    def write(self, rows: DataFrame, number: int) -> None:
        try:
            self._run.check()
            if (folder := folder_of_batch(self._files, number)) is not None:
                log.info("batch %d was archived by an earlier run, in %s", number, folder)
                return
            # A stream's session turns it off because of state; these rows have none.
            rows.sparkSession.conf.set("spark.sql.adaptive.enabled", "true")
            write_folder(rows, self._files, Folder(number, number, self._run.name))
        except PipelineError as error:
            self.error = error
            raise


class BatchLog:
    """Logs the batches of a run. records: of all batches so far."""

    def __init__(self) -> None:
        self.records = 0
        self._logged = -1

    def follow(self, query: StreamingQuery) -> None:
        """Logs each batch until the query ends."""
        ended = False
        while not ended:
            ended = bool(query.awaitTermination(_POLL_S))
            for batch in query.recentProgress:
                if batch.batchId > self._logged and "addBatch" in batch.durationMs:
                    self._log(batch)

    def _log(self, batch: StreamingQueryProgress) -> None:
        self._logged = batch.batchId
        self.records += batch.numInputRows
        log.info(
            "batch %d: %d records in %.1f s (%.0f/s), %d offsets behind the end of the topics",
            batch.batchId,
            batch.numInputRows,
            batch.durationMs.get("triggerExecution", 0) / 1000,
            batch.processedRowsPerSecond or 0.0,
            sum(offsets_behind(source.endOffset, source.latestOffset) for source in batch.sources),
        )


def offsets_behind(at: str | None, latest: str | None) -> int:
    """The number of offsets between two positions in Spark's JSON: {topic: {partition: offset}}."""
    ends, reached = _offsets(latest), _offsets(at)
    return sum(
        max(0, int(end) - int(reached.get(topic, {}).get(partition, 0)))
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    )


def _offsets(text: str | None) -> Mapping[str, Mapping[str, Any]]:
    try:
        found = json.loads(text or "")
    except ValueError:  # PySpark's "None" for a repeated batch
        return {}
    return found if isinstance(found, dict) else {}


def _first_line(error: Exception) -> str:
    """The first line of the message, without Spark's ids of the query."""
    return str(error).partition("terminated with exception: ")[2].partition("\n")[0] or str(error)[:300]


def _mentions(error: Exception, marks: Sequence[str]) -> bool:
    return any(mark in str(error) for mark in marks)
