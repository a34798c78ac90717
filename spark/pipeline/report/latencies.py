"""Percentiles of the latencies of firings: by DAG, by condition, by event type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

QUANTILES: Final = (0.5, 0.9, 0.99)
# Of percentile_approx: exact up to this many values per group; above, off by at most one in 10,000 ranks.
ACCURACY: Final = 10_000
LATENCIES: Final = ("event_to_firing", "firing_to_resume")


def percentiles(name: str, value: Column) -> list[Column]:
    """Aggregates of a column of milliseconds: name_count, name_p50_ms, name_p90_ms, name_p99_ms, name_max_ms.

    A percentile is the least value with at least that share of all values at or below it.
    """
    from pyspark.sql import functions as f

    quantiles = f.percentile_approx(value, list(QUANTILES), ACCURACY)
    return [
        f.count(value).alias(f"{name}_count"),
        *(
            f.get(quantiles, f.lit(place)).alias(f"{name}_p{quantile * 100:.0f}_ms")
            for place, quantile in enumerate(QUANTILES)
        ),
        f.max(value).alias(f"{name}_max_ms"),
    ]


def by_dag(firings: DataFrame) -> DataFrame:
    """One row for each waiter, DAG and task."""
    return firings.groupBy("waiter", "dag", "task").agg(*_counts(), *_latencies())


def by_condition(firings: DataFrame, conditions: DataFrame) -> DataFrame:
    """One row for each condition; condition_id and condition are null without an archived registration.

    waiter, dag, task: one of those that use it; dags: how many DAGs do.
    """
    from pyspark.sql import functions as f

    texts = conditions.select("condition_id", "condition")
    dags = f.count_distinct("waiter", "dag").alias("dags")
    user = f.min(f.struct("dag", "task", "waiter")).alias("user")
    found = firings.groupBy("condition_id").agg(dags, user, *_counts(), *_latencies())
    found = found.join(texts, "condition_id", "left")
    return found.select(*(name for name in found.columns if name != "user"), "user.*")


def by_type(firings: DataFrame) -> DataFrame:
    """One row for each type, and topic of plain records, of the events that took part.

    firings: in which the type took part. completed: in which it came last; event_to_firing covers only these.
    held: from the append of its last event to the firing, which includes waiting for other events.
    """
    from pyspark.sql import functions as f

    each = firings.select(
        f.explode("types").alias("part"),
        "decided_by",
        "decided_topic",
        "moment_ms",
        "event_to_firing_ms",
        "firing_to_resume_ms",
    )
    completed = f.col("part.type") == f.col("decided_by")
    completed &= f.col("part.topic").eqNullSafe(f.col("decided_topic"))
    return (
        each.withColumn("type", f.col("part.type"))
        .withColumn("topic", f.col("part.topic"))
        .groupBy("type", "topic")
        .agg(
            f.count("*").alias("firings"),
            f.count(f.when(completed, True)).alias("completed"),
            *percentiles("event_to_firing", f.when(completed, f.col("event_to_firing_ms"))),
            *percentiles("held", f.col("moment_ms") - f.col("part.last_ms")),
            *percentiles("firing_to_resume", f.col("firing_to_resume_ms")),
        )
    )


def lacking(firings: DataFrame) -> DataFrame:
    """One row for each waiter, DAG, task and label that was missing when a wait expired: expired."""
    from pyspark.sql import functions as f

    missing = firings.where("outcome = 'expired'").select(
        "waiter", "dag", "task", f.explode("missing").alias("label")
    )
    return missing.groupBy("waiter", "dag", "task", "label").agg(f.count("*").alias("expired"))


def overall(firings: DataFrame) -> DataFrame:
    """One row for all firings."""
    return firings.agg(*_counts(), *_latencies())


def _counts() -> list[Column]:
    from pyspark.sql import functions as f

    return [
        f.count("*").alias("firings"),
        f.count(f.when(f.col("outcome") == "met", True)).alias("met"),
        f.count(f.when(f.col("outcome") == "fail_on", True)).alias("fail_on"),
        f.count(f.when(f.col("outcome") == "expired", True)).alias("expired"),
        f.count("acked_ms").alias("acknowledged"),
        f.count(f.when(f.col("open"), True)).alias("open"),
    ]


def _latencies() -> list[Column]:
    from pyspark.sql import functions as f

    return [each for latency in LATENCIES for each in percentiles(latency, f.col(f"{latency}_ms"))]
