"""The cost of completion events: a job of 500 tasks with and without them, alternating, in one
application."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create

from ..lines import Aim, progress, report
from .session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS = 500
ROWS = 20_000_000
PAIRS = 10
WARM_UP = 3  # pairs that are not counted: the JVM still compiles


def run(bootstrap_servers: str) -> None:
    bus = BusConfig(name="bench-hooks", client={"bootstrap.servers": bootstrap_servers})
    create(bus, partitions=1)
    with session(
        2, spark_interlock_bootstrap_servers=bootstrap_servers, spark_interlock_bus=bus.name
    ) as spark:
        _pairs(spark)


def _pairs(spark: SparkSession) -> None:
    from interlock.spark import completion_event

    number = iter(range(1000))

    def block() -> Any:
        return completion_event(spark, f"job {next(number)}", until="block")

    times: dict[str, list[float]] = {"without": [], "with": []}
    for _ in range(WARM_UP):
        _timed(spark, nullcontext)
        _timed(spark, block)
    for pair in range(PAIRS):
        order = ("without", "with") if pair % 2 else ("with", "without")
        for kind in order:
            times[kind].append(_timed(spark, block if kind == "with" else nullcontext))
        progress(f"{pair + 1}/{PAIRS}: without {times['without'][-1]:.2f} s, with {times['with'][-1]:.2f} s")
    # Within each pair, whose runs follow each other: the machine's speed changes over minutes.
    ratios = [with_ / without for without, with_ in zip(times["without"], times["with"], strict=True)]
    about = f"a job of {TASKS} tasks that writes"
    report(
        f"{about}, without completion events",
        statistics.median(times["without"]),
        "s",
        turns=times["without"],
    )
    report(
        f"{about}, with completion events, delivery included",
        statistics.median(times["with"]),
        "s",
        statistics.median(ratios),
        aim=Aim("ratio at most", 1.03),
        turns=times["with"],
    )


def _timed(spark: SparkSession, block: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    with block():
        numbers = spark.range(0, ROWS, 1, TASKS).selectExpr("id", "sha2(cast(id as string), 256) AS text")
        numbers.where("text < '00001'").write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin
