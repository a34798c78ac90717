"""The archive job: copies the bus's topics into Parquet files (docs/use/pipeline.md, "The archive")."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from interlock.conditions.nodes.duration import duration_ms
from interlock.events.errors import InterlockError
from interlock.spark.pipeline.archive.ingest import MAX_OFFSETS, IngestOptions, archive
from interlock.spark.pipeline.rows import BATCH_BYTES, BATCH_RECORDS
from interlock.spark.pipeline.session import job_session
from interlock.spark.pipeline.source import connected

_MOST_OFFSETS: Final = 2**63 - 1  # as Spark counts them


def parse(arguments: Sequence[str]) -> IngestOptions:
    parser = argparse.ArgumentParser(prog="archive", description=__doc__, allow_abbrev=False)
    parser.add_argument("--archive", required=True, metavar="PATH", help="folder of the archive")
    parser.add_argument(
        "--checkpoint", metavar="PATH", help="folder of the offsets; default: PATH/_checkpoint"
    )
    parser.add_argument(
        "--topic", action="append", default=[], metavar="NAME", help="may be repeated; default: all topics"
    )
    parser.add_argument(
        "--every", metavar="DURATION", help="run until stopped, with one batch per interval, e.g. 5m"
    )
    parser.add_argument(
        "--max-offsets", type=int, default=MAX_OFFSETS, metavar="N", help="maximum records in one batch"
    )
    parser.add_argument("--accept-loss", action="store_true", help="continue without records that are lost")
    given = parser.parse_args(arguments)
    if not 1 <= given.max_offsets <= _MOST_OFFSETS:
        parser.error(f"--max-offsets: give 1 or more, at most {_MOST_OFFSETS}")
    return IngestOptions(
        archive=given.archive,
        checkpoint=given.checkpoint,
        topics=tuple(given.topic),
        every_ms=None if given.every is None else duration_ms("--every", given.every),
        max_offsets=given.max_offsets,
        accept_loss=given.accept_loss,
    )


def main(arguments: Sequence[str]) -> None:
    try:
        options = parse(arguments)
        with job_session("archive") as spark:
            spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", BATCH_RECORDS)
            spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", BATCH_BYTES)
            with connected(spark) as bus:
                archive(spark, bus, options)
    except InterlockError as error:
        sys.exit(f"archive: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
