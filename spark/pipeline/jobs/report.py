"""The report job: latencies, expired waits and more, computed from the archive (docs/use/pipeline.md)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from interlock.events.errors import InterlockError
from interlock.spark.pipeline.report.making import PAGE, make_report
from interlock.spark.pipeline.report.summary import summary
from interlock.spark.pipeline.session import job_session


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parses the command line: archive, output, since and until (ms or None), output_format."""
    parser = argparse.ArgumentParser(prog="report", description=__doc__, allow_abbrev=False)
    parser.add_argument("--archive", required=True, metavar="PATH", help="folder of the archive")
    parser.add_argument(
        "--output", required=True, metavar="PATH", help="folder for the tables and report.html"
    )
    parser.add_argument(
        "--since", type=_moment, metavar="TIME", help="ISO 8601; default: from the first record"
    )
    parser.add_argument("--until", type=_moment, metavar="TIME", help="ISO 8601, not included")
    parser.add_argument("--output-format", choices=("human", "json"), default="human", help="summary format")
    given = parser.parse_args(arguments)
    if given.since is not None and given.until is not None and given.since >= given.until:
        parser.error("--since must be before --until")
    return given


def main(arguments: Sequence[str]) -> None:
    given = parse(arguments)
    try:
        with job_session("report") as spark:
            figures = make_report(
                spark,
                given.archive,
                given.output,
                since_ms=given.since,
                until_ms=given.until,
                now_ms=int(datetime.now(UTC).timestamp() * 1000),
            )
    except InterlockError as error:
        sys.exit(f"report: {error}")
    page = f"{given.output.rstrip('/')}/{PAGE}"
    if given.output_format == "json":
        sys.stdout.write(json.dumps({"page": page, **figures.summary()}) + "\n")
    else:
        sys.stdout.write(summary(figures, page))


def _moment(text: str) -> int:
    """Milliseconds since the epoch; a date means midnight in UTC."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or (when.tzinfo is None and len(text) > len("2026-11-20")):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time with a zone: write 2026-11-20 (midnight in UTC) or 2026-11-20T06:00:00Z"
        )
    return int((when.replace(tzinfo=UTC) if when.tzinfo is None else when).timestamp() * 1000)


if __name__ == "__main__":
    main(sys.argv[1:])
