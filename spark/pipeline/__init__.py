"""The data pipeline in PySpark: archive, backtest, report (docs/use/pipeline.md). Imports no Spark."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Final

from ...events.errors import InterlockError

JOBS: Final = Path(__file__).resolve().parent / "jobs"


class PipelineError(InterlockError, ValueError):
    """A job cannot run as it was told to; the message says what to do."""


def job(name: str) -> str:
    """The path of the file of a job, for spark-submit: "archive", "archive-compact", "backtest", "report".

    PipelineError names those that there are.
    """
    path = JOBS / f"{name.replace('-', '_')}.py"
    if not path.is_file() or path.stem.startswith("_"):
        there = sorted(each.stem.replace("_", "-") for each in JOBS.glob("[a-z]*.py"))
        raise PipelineError(f"there is no job {name!r}: there are {', '.join(there)}")
    return str(path)


def packages() -> str:
    """What `spark-submit --packages` needs: Spark's connector for Kafka, of the version of this PySpark."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"
