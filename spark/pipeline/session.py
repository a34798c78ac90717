"""The Spark session of a job, and what a person sees of it meanwhile."""

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
    """The session of the job called `name`, stopped after the block. Its log goes to stderr.

    Adaptive execution is on, whatever the cluster's defaults. Spark's own lines begin at WARN, where those of
    progress would drown in them; `spark.log.level` says else.
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
