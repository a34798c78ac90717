"""The settings of the tests' Spark sessions."""

from __future__ import annotations

from interlock.spark.pipeline import packages

# Spark's own jars have the same classes, and the connector's 60 MB of them would be fetched for nothing.
EXCLUDED = "org.apache.hadoop:hadoop-client-runtime,org.apache.hadoop:hadoop-client-api"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.jars.packages": packages(),
    "spark.jars.excludes": EXCLUDED,
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}
# For `make test`: to compile a query takes longer than to interpret it for a thousand rows. The long tier,
# the example DAGs and `bench` compile.
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
