"""The orders of one business date: a PySpark job that emits a completion event.

    spark-submit --conf spark.interlock.bootstrap.servers=host:9092 orders.py --date 2026-11-20 --data /data

The orders are computed from the date, so that anyone can compute what a report should contain.
"""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path

from interlock.spark import completion_event
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f

CURRENCIES = ("EUR", "JPY", "USD")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--date", required=True, help="business date, YYYY-MM-DD")
    parser.add_argument("--data", required=True, type=Path, help="folder in which to write orders/DATE")
    arguments = parser.parse_args()
    day = date.fromisoformat(arguments.date).toordinal()
    output = str(arguments.data / "orders" / arguments.date)

    spark = SparkSession.builder.appName("orders").getOrCreate()
    with completion_event(spark, "orders", data={"date": arguments.date}) as completion:
        orders = spark.range(1000 + day % 97).select(
            f.col("id").alias("order"),
            currency((f.col("id") * 7 + day) % len(CURRENCIES)).alias("currency"),
            ((f.col("id") * 7919 + day * 104729) % 50000 + 100).alias("cents"),
        )
        orders.write.mode("overwrite").parquet(output)
        completion.data["rows"] = orders.count()
        completion.data["output"] = output
    spark.stop()


def currency(number: Column) -> Column:
    return f.element_at(f.array(*[f.lit(name) for name in CURRENCIES]), (number + 1).cast("int"))


if __name__ == "__main__":
    main()
