"""The archive-compact job: merges many small files of an archive into few, and removes old days."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from interlock.conditions.nodes.duration import duration_ms
from interlock.events.errors import InterlockError
from interlock.spark.pipeline.archive.compaction import RANGE, compact
from interlock.spark.pipeline.archive.files import Files
from interlock.spark.pipeline.archive.layout import check_exists
from interlock.spark.pipeline.archive.retention import first_day, remove_before
from interlock.spark.pipeline.archive.runs import begin
from interlock.spark.pipeline.session import job_session

RUNS = "_compactions"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="archive-compact", description=__doc__, allow_abbrev=False)
    parser.add_argument("--archive", required=True, metavar="PATH", help="folder of the archive")
    parser.add_argument(
        "--range", type=int, default=RANGE, metavar="N", help="how many batches to merge into one folder"
    )
    parser.add_argument("--grace", default="1h", metavar="DURATION", help="how long replaced folders stay")
    parser.add_argument("--keep", type=int, metavar="DAYS", help="remove rows older than this many days")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    try:
        given = parse(arguments)
        now = datetime.now(UTC)
        grace_ms = duration_ms("--grace", given.grace, zero=True)
        since = None if given.keep is None else first_day(now, given.keep)
        with job_session("archive-compact") as spark:
            files = Files(spark, given.archive)
            check_exists(files)
            compact(
                spark,
                begin(files, RUNS),
                now_ms=int(now.timestamp() * 1000),
                size=given.range,
                grace_ms=grace_ms,
                since=since,
            )
            if since is not None:
                remove_before(files, since)
    except InterlockError as error:
        sys.exit(f"archive-compact: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
