"""The Spark session of a job, and its log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Options of a reader. If a cluster's settings say "true", Spark leaves out the rows of such files with a
# warning, and of a file whose read fails once, as for a lost connection, the rest.
WHOLE_FILES: Final = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}


@contextmanager
def job_session(name: str) -> Iterator[SparkSession]:
    """The session of the job `name`, stopped after the block. The log goes to stderr.

    It is as `configure` sets it, whatever the cluster's defaults. Spark itself logs from WARN on, so that the
    job's progress stays visible; `spark.log.level` overrides that.
    """
    from pyspark.sql import SparkSession

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    spark = SparkSession.builder.appName(f"interlock {name}").getOrCreate()
    if spark.conf.get("spark.log.level", None) is None:
        spark.sparkContext.setLogLevel("WARN")
    configure(spark)
    try:
        yield spark
    finally:
        spark.stop()


def configure(spark: SparkSession) -> None:
    """Turns adaptive execution on, and makes a file that cannot be read an error."""
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    for option, value in WHOLE_FILES.items():  # for the tables that a job reads back
        spark.conf.set(f"spark.sql.files.{option}", value)
