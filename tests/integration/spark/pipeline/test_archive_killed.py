"""The archive job killed while events arrive: in the end it has each record that was sent, once.

ARCHIVE_EVENTS, ARCHIVE_KILLS, ARCHIVE_SEED: how many, how often, and which moments (`make archive-kill`).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from interlock.spark.pipeline.archive import read
from interlock.spark.pipeline.archive.compaction import compact
from interlock.spark.pipeline.archive.files import Files
from interlock.spark.pipeline.archive.ingest import IngestOptions, archive
from interlock.spark.pipeline.archive.runs import begin

from .archive_load import Load
from .archive_process import PHASES, ArchiveProcess, batches_done, phase
from .conftest import Site

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = int(os.environ.get("ARCHIVE_EVENTS") or 6_000)
KILLS = int(os.environ.get("ARCHIVE_KILLS") or 2)
SEED = int(os.environ.get("ARCHIVE_SEED") or random.randrange(2**31))


@pytest.fixture
def submit(spark: SparkSession, site: Site, tmp_path: Path) -> Iterator[Callable[..., ArchiveProcess]]:
    """Starts the job over `tmp_path/archive`; ends processes that a test leaves."""
    jars = spark.conf.get("spark.repl.local.jars")
    assert jars is not None
    started: list[ArchiveProcess] = []

    def start(*arguments: str) -> ArchiveProcess:
        log = tmp_path / f"run-{len(started)}.log"
        started.append(ArchiveProcess(site, tmp_path / "archive", log, jars, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def compare(spark: SparkSession, folder: Path, site: Site, load: Load) -> None:
    """Fails unless the archive has each committed record exactly once."""
    from pyspark.sql import functions as f

    places = list(load.committed)
    table = pa.table(
        {
            "topic": [site.topic()] * len(places),
            "partition": pa.array([partition for partition, _ in places], pa.int32()),
            "offset": pa.array([offset for _, offset in places], pa.int64()),
            "id": pa.array([load.committed[place] for place in places], pa.string()),
        }
    )
    sent = spark.createDataFrame(table)
    kept = read(spark, str(folder), ("event", "unreadable")).select(*sent.columns).cache()
    try:
        assert kept.count() == len(places)
        assert kept.exceptAll(sent).take(3) == []
        assert sent.exceptAll(kept).take(3) == []
        assert kept.groupBy("topic", "partition", "offset").count().where(f.col("count") > 1).take(3) == []
    finally:
        kept.unpersist()


@pytest.mark.long
def test_the_archive_has_what_was_sent_although_its_job_was_killed(
    spark: SparkSession,
    site: Site,
    tmp_path: Path,
    submit: Callable[..., ArchiveProcess],
    say: Callable[[str], None],
) -> None:
    chance = random.Random(SEED)
    say(f"ARCHIVE_SEED={SEED} ARCHIVE_EVENTS={EVENTS} ARCHIVE_KILLS={KILLS}")
    folder = tmp_path / "archive"
    share = EVENTS // (KILLS + 1)
    wanted = [name for _ in range(-(-KILLS // len(PHASES))) for name in chance.sample(PHASES, len(PHASES))]
    load = Load(site, EVENTS, SEED)
    load.allow(share // 2)
    found: Counter[str] = Counter()
    for number, moment in enumerate(wanted[:KILLS], 1):
        runs = len(list(folder.glob("_runs/*")))
        process = submit("--every", "100ms", "--max-offsets", str(max(50, share // 8)))
        process.until("the run", lambda: len(list(folder.glob("_runs/*"))) > runs)  # noqa: B023
        load.allow(number * share)
        if moment != "starting":
            load.check()
            done = batches_done(folder) + chance.randint(0, 3)
            process.until(f"batch {done}", lambda: batches_done(folder) > done)  # noqa: B023
            process.until(moment, lambda: phase(folder) == moment)  # noqa: B023
        process.kill()
        found[phase(folder)] += 1
        say(
            f"kill {number}, aimed at {moment!r}: it was {phase(folder)!r}, after {batches_done(folder)}"
            f" batches and {len(load.committed)} records sent"
        )
    load.end()
    archive(
        spark,
        site.bus,
        IngestOptions(str(folder), topics=[site.topic()], max_offsets=max(1000, EVENTS // 10)),
    )
    compare(spark, folder, site, load)
    files = Files(spark, str(folder))
    now_ms = int(datetime.now(UTC).timestamp() * 1000) + 60_000
    done = compact(spark, begin(files, "_compactions"), now_ms=now_ms, size=4, grace_ms=0)
    assert done.written
    compare(spark, folder, site, load)
    say(
        f"{len(load.committed)} records are there once, {load.aborted} aborted ones are not; killed while"
        f" {dict(found)}, {batches_done(folder)} batches"
    )


@pytest.mark.long
def test_a_second_run_takes_over_and_the_first_one_ends_with_an_error(
    spark: SparkSession, site: Site, tmp_path: Path, submit: Callable[..., ArchiveProcess]
) -> None:
    folder = tmp_path / "archive"
    load = Load(site, 3000, SEED)
    load.allow(500)
    first = submit("--every", "10ms", "--max-offsets", "100")
    first.until("a batch", lambda: batches_done(folder) > 0)
    load.allow(3000)
    archive(spark, site.bus, IngestOptions(str(folder), topics=[site.topic()], max_offsets=500))
    load.end()
    code, output = first.finished()
    assert code == 1, output
    message = output.rsplit("archive: ", 1)[-1]
    assert message.startswith("another run over"), output
    assert "Run one at a time" in message
    archive(spark, site.bus, IngestOptions(str(folder), topics=[site.topic()]))
    compare(spark, folder, site, load)
