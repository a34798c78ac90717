"""Registrations by incarnation, and their conditions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ....conditions import from_json
from ....events.errors import InterlockError
from .records import registrations_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from ....conditions import Condition

MAX_TEXT: Final = 2000  # characters of a condition's text in the tables; `form` has all of it


def incarnations(rows: DataFrame) -> DataFrame:
    """One row for each incarnation in rows of kind `subscription`.

    Columns: incarnation, condition_id (hash of `form`, 16 hex characters), form (the condition as JSON),
    registered (ms in ascending order: an abandoned wait may register again), in_force_until (ms; null: still
    in force).
    """
    from pyspark.sql import functions as f

    stamp = f.col("appended_ms")
    registers = ~f.col("removes")
    removed, last = f.col("removed"), f.element_at("registered", -1)
    return (
        registrations_of(rows)
        .groupBy("incarnation")
        .agg(
            f.sort_array(f.collect_set(f.when(registers, stamp))).alias("registered"),
            f.max(f.when(f.col("removes"), stamp)).alias("removed"),
            f.first("record.condition", ignorenulls=True).alias("form"),
        )
        .where("form IS NOT NULL")  # null: only its removal was archived
        .select(
            "incarnation",
            f.substring(f.sha2("form", 256), 1, 16).alias("condition_id"),
            "form",
            "registered",
            f.when(removed >= last, removed).alias("in_force_until"),
        )
    )


def in_force(found: DataFrame, since_ms: int | None, until_ms: int | None) -> DataFrame:
    """The incarnations that were in force at some time of the range."""
    from pyspark.sql import functions as f

    if since_ms is not None:
        until = f.col("in_force_until")
        found = found.where(until.isNull() | (until >= since_ms))
    if until_ms is not None:
        found = found.where(f.get("registered", f.lit(0)) < until_ms)
    return found


def conditions(found: DataFrame) -> DataFrame:
    """The distinct conditions of incarnations.

    Columns: condition_id, condition (as text; null if this version cannot read it), form, registrations.
    """
    from pyspark.sql import functions as f

    distinct = found.groupBy("condition_id").agg(
        f.first("form").alias("form"), f.count("*").alias("registrations")
    )
    schema = "condition_id STRING, condition STRING, form STRING, registrations LONG"
    return distinct.mapInArrow(_with_text, schema)


def read_condition(form: str) -> Condition | None:
    """The condition of this JSON; None if this version cannot read it."""
    try:
        return from_json(json.loads(form))
    except (InterlockError, ValueError, RecursionError):
        return None


def _with_text(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        read = [read_condition(form) for form in batch.column("form").to_pylist()]
        texts = [None if condition is None else str(condition)[:MAX_TEXT] for condition in read]
        yield pa.RecordBatch.from_arrays(
            [
                batch.column("condition_id"),
                pa.array(texts, pa.string()),
                batch.column("form"),
                batch.column("registrations"),
            ],
            names=["condition_id", "condition", "form", "registrations"],
        )
