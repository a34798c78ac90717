"""The backtest job, and a checksum over its firings that Spark adds up: for spark-submit.

Arguments: those of the job, with --output. Prints one JSON object.
"""

from __future__ import annotations

import json
import logging
import sys

from interlock.spark.pipeline.jobs import backtest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

DIGITS = 15


def main(arguments: list[str]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    what = backtest.wanted(arguments)
    spark = SparkSession.builder.appName("interlock backtest").getOrCreate()
    backtest.configure(spark)
    try:
        summary = backtest.run(spark, what)
        firings = spark.read.parquet(f"{what.output}/firings")
        parts = f.transform(
            "events",
            lambda e: f.concat_ws(
                " ",
                e["label"],
                e["source"],
                e["id"],
                e["topic"],
                e["partition"].cast("string"),
                e["offset"].cast("string"),
                e["appended_ms"].cast("string"),
            ),
        )
        text = f.concat_ws(
            "|",
            "key",
            "outcome",
            f.col("fired_ms").cast("string"),
            f.coalesce(f.col("timer_ms").cast("string"), f.lit("")),
            f.concat_ws(",", "missing"),
            f.concat_ws(",", parts),
        )
        number = f.conv(f.substring(f.md5(text), 1, DIGITS), 16, 10).cast("decimal(20,0)")
        found = firings.agg(f.count("*").alias("firings"), f.sum(number).alias("checksum")).head()
    finally:
        spark.stop()
    assert found is not None
    figures = {"firings": found.firings, "checksum": int(found.checksum or 0), "events": summary.events}
    print(
        json.dumps({**figures, "took_s": summary.duration_s, "pending": summary.before.pending}), flush=True
    )


if __name__ == "__main__":
    main(sys.argv[1:])
