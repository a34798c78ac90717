"""Spark sessions of the bench: local, without a UI, with the connector."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def session(cores: int, **more: str) -> Iterator[SparkSession]:
    """A session with its own JVM. more: settings, with underscores for dots."""
    from interlock.spark.pipeline import packages
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.jars.packages", packages())
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
    )
    for name, value in more.items():
        builder = builder.config(name.replace("_", "."), value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
