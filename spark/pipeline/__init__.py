"""The data pipeline in PySpark: archive, backtest, report (docs/use/pipeline.md). Imports no Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ...events.errors import InterlockError
from .. import installed

JOBS: Final = Path(__file__).resolve().parent / "jobs"
_CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_{scala}:{spark}"
_SPARK: Final = re.compile(r"4\.\d+\.\d+[\w.-]*")
_SCALA: Final = "2.13"  # the only one of Spark 4


class PipelineError(InterlockError, ValueError):
    """A job cannot run with its options, settings or data; the message says what to do."""


def job(name: str) -> str:
    """The path of a job's file, for spark-submit: "archive", "archive-compact", "backtest" or "report".

    Raises PipelineError for another name.
    """
    path = JOBS / f"{name.replace('-', '_')}.py"
    if not path.is_file() or path.stem.startswith("_"):
        known = sorted(each.stem.replace("_", "-") for each in JOBS.glob("[a-z]*.py"))
        raise PipelineError(f"no job {name!r}: choose one of {', '.join(known)}")
    return str(path)


def packages(spark: str | None = None) -> str:
    """The argument of `spark-submit --packages`: the Kafka connector of the Spark that spark-submit starts.

    spark: the version of Spark, such as "4.0.0"; default: of the Spark in SPARK_HOME, else of the installed
    PySpark. The connector must have exactly this version. Raises PipelineError if there is no Spark here.
    """
    if spark is None:
        found = installed.jars()
        if found is None:
            raise PipelineError(
                "no Spark is installed here, so the version of its Kafka connector is unknown:"
                " run pip install 'airflow-interlock[spark]', set SPARK_HOME,"
                ' or give the version of your Spark: packages("4.0.0")'
            )
        return _CONNECTOR.format(scala=found.scala, spark=found.spark)
    if not isinstance(spark, str) or not _SPARK.fullmatch(spark):
        raise PipelineError(f'packages({spark!r}): give a version of Spark 4, such as "4.0.0"')
    return _CONNECTOR.format(scala=_SCALA, spark=spark)
