"""Logs the progress of a Spark job."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ...events.visible import visible_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = visible_logger(__name__)

EVERY_S: Final = 30.0


@contextmanager
def logged_progress(spark: SparkSession, what: str, every_s: float = EVERY_S) -> Iterator[None]:
    """Logs every `every_s` inside the block how many tasks of each active stage are done."""
    tracker = spark.sparkContext.statusTracker()
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(every_s):
            for number in sorted(tracker.getActiveStageIds()):
                stage = tracker.getStageInfo(number)
                if stage is not None:
                    done, tasks = stage.numCompletedTasks, stage.numTasks
                    log.info("%s: stage %d, %d of %d tasks done", what, number, done, tasks)

    thread = threading.Thread(target=report, name="progress", daemon=True)
    log.info("%s", what)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
