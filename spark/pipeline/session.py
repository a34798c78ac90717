"""The Spark session of a job, and its log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def job_session(name: str) -> Iterator[SparkSession]:
    """The session of the job `name`, stopped after the block. The log goes to stderr.

    Turns adaptive execution on, whatever the cluster's default. Spark itself logs from WARN on, so that the
    job's progress stays visible; `spark.log.level` overrides that.
    """
    from pyspark.sql import SparkSession

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    spark = SparkSession.builder.appName(f"interlock {name}").getOrCreate()
    if spark.conf.get("spark.log.level", None) is None:
        spark.sparkContext.setLogLevel("WARN")
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        yield spark
    finally:
        spark.stop()
