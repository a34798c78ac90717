"""The report of one business date: its orders and rates joined, the turnover of each currency in euro.

The paths of both inputs come from the events that announced them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from interlock.spark import completion_event
from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--date", required=True, help="business date, YYYY-MM-DD")
    parser.add_argument("--orders", required=True, help="folder of the date's orders (Parquet)")
    parser.add_argument("--rates", required=True, help="file of the date's rates (JSON lines)")
    parser.add_argument("--firing", required=True, help="id of the firing with the inputs")
    parser.add_argument("--output", required=True, type=Path, help="file to write the report to")
    arguments = parser.parse_args()

    spark = SparkSession.builder.appName("daily_report").getOrCreate()
    with completion_event(spark, "daily_report", data={"date": arguments.date}) as completion:
        orders = spark.read.parquet(arguments.orders)
        rates = spark.read.schema("date string, currency string, millionths long").json(arguments.rates)
        turnover = (
            orders.join(f.broadcast(rates), "currency")
            .groupBy("currency", "date")
            .agg(f.count("*").alias("orders"), f.sum(f.col("cents") * f.col("millionths")).alias("total"))
            .orderBy("currency")
        )
        lines = [row.asDict() for row in turnover.collect()]
        report = {
            "date": arguments.date,
            "firing": arguments.firing,
            "inputs": {"orders": arguments.orders, "rates": arguments.rates},
            "rates_of": sorted({line.pop("date") for line in lines}),
            "turnover": lines,
        }
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(report, indent=1) + "\n")
        completion.data["rows"] = sum(line["orders"] for line in lines)
        completion.data["output"] = str(arguments.output)
    spark.stop()


if __name__ == "__main__":
    main()
