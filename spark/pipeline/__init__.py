"""The data pipeline in PySpark: archive, backtest, report (docs/use/pipeline.md). Imports no Spark."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Final

from ...events.errors import InterlockError

JOBS: Final = Path(__file__).resolve().parent / "jobs"


class PipelineError(InterlockError, ValueError):
    """A job cannot run with its options, settings or data; the message says what to do."""


def job(name: str) -> str:
    """The path of a job's file, for spark-submit: "archive", "archive-compact", "backtest" or "report".

    PipelineError for another name.
    """
    path = JOBS / f"{name.replace('-', '_')}.py"
    if not path.is_file() or path.stem.startswith("_"):
        known = sorted(each.stem.replace("_", "-") for each in JOBS.glob("[a-z]*.py"))
        raise PipelineError(f"no job {name!r}: choose one of {', '.join(known)}")
    return str(path)


def packages() -> str:
    """The argument of `spark-submit --packages`: Spark's Kafka connector in the version of this PySpark."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"
