"""The tables between the steps of a backtest: their schemas for Spark and Arrow, and their builders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from ....conditions.evaluate.half_met import HalfMet

# The output of matching: an event's match for a key, without its data. numbers: of the matchers that accepted
# it, separated by commas. counted: JSON of Hit.values. note: JSON of a near miss (misses.py), which is not a
# match and has no key.
MATCHED: Final = (
    "key string, stamp_ms long, topic string, partition int, offset long, numbers string, source string,"
    " id string, type string, time string, counted string, note string"
)
# Of an event in the output of the fold.
_PART: Final = (
    "label string, source string, id string, type string, topic string, partition int, offset long,"
    " appended_ms long"
)
# The output of the fold: rows of kind firing, pending or miss, each with its own columns.
_FIRST: Final = "kind string, key string, outcome string, fired_ms long, timer_ms long"
_LAST: Final = "waiting int, since_ms long, expires_ms long, due_ms long, note string"
RESULT: Final = f"{_FIRST}, missing array<string>, events array<struct<{_PART}>>, {_LAST}"


def _fields(columns: str) -> list[Any]:
    kinds = {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}
    return [pa.field(name, kinds[kind]) for name, kind in (each.split() for each in columns.split(", "))]


MATCHED_ARROW: Final = pa.schema(_fields(MATCHED))
_PART_FIELDS: Final = _fields(_PART)
_NOT_NESTED: Final = [*_fields(_FIRST), *_fields(_LAST)]
_RESULT: Final = pa.schema(
    [
        *_fields(_FIRST),
        pa.field("missing", pa.list_(pa.string())),
        pa.field("events", pa.list_(pa.struct(_PART_FIELDS))),
        *_fields(_LAST),
    ]
)
PartRow = tuple[str, str, str, str, str, int, int, int]


class Matches:
    """Collects rows of MATCHED."""

    def __init__(self) -> None:
        self.rows: list[tuple[object, ...]] = []

    def pop_batch(self) -> Any:
        """Removes and returns the rows, as one Arrow batch."""
        columns = zip(*self.rows, strict=True) if self.rows else ([] for _ in MATCHED_ARROW)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, MATCHED_ARROW, strict=True)]
        self.rows = []
        return pa.RecordBatch.from_arrays(arrays, schema=MATCHED_ARROW)


class Results:
    """Collects rows of RESULT column by column: nested rows made of dicts would take most of the time."""

    def __init__(self) -> None:
        self._clear()

    def __len__(self) -> int:
        return len(self._rows)

    def firing(
        self,
        key: str | None,
        outcome: str,
        fired_ms: int,
        timer_ms: int | None,
        missing: tuple[str, ...],
        parts: list[PartRow],
    ) -> None:
        self._add(("firing", key, outcome, fired_ms, timer_ms, None, None, None, None, None), missing, parts)

    def pending(self, key: str | None, found: HalfMet, parts: list[PartRow]) -> None:
        times = (found.waiting, found.since_ms, found.expires_ms, found.due_ms)
        self._add(("pending", key, None, None, None, *times, None), found.missing, parts)

    def miss(self, stamp_ms: int | None, note: str, part: PartRow | None) -> None:
        row = ("miss", None, None, stamp_ms, None, None, None, None, None, note)
        self._add(row, (), [] if part is None else [part])

    def pop_batch(self) -> Any:
        """Removes and returns the rows, as one Arrow batch."""
        columns = zip(*self._rows, strict=True) if self._rows else ([] for _ in _NOT_NESTED)
        arrays = {
            field.name: pa.array(column, field.type)
            for field, column in zip(_NOT_NESTED, columns, strict=True)
        }
        arrays["missing"] = pa.ListArray.from_arrays(
            pa.array(self._missing_ends, pa.int32()), pa.array(self._missing, pa.string())
        )
        flat = zip(*self._parts, strict=True) if self._parts else ([] for _ in _PART_FIELDS)
        fields = [pa.array(column, field.type) for column, field in zip(flat, _PART_FIELDS, strict=True)]
        arrays["events"] = pa.ListArray.from_arrays(
            pa.array(self._part_ends, pa.int32()), pa.StructArray.from_arrays(fields, fields=_PART_FIELDS)
        )
        self._clear()
        return pa.RecordBatch.from_arrays([arrays[name] for name in _RESULT.names], schema=_RESULT)

    def _add(self, row: tuple[object, ...], missing: tuple[str, ...], parts: list[PartRow]) -> None:
        self._rows.append(row)
        self._missing += missing
        self._missing_ends.append(len(self._missing))
        self._parts += parts
        self._part_ends.append(len(self._parts))

    def _clear(self) -> None:
        self._rows: list[tuple[object, ...]] = []
        self._missing: list[str] = []
        self._missing_ends = [0]
        self._parts: list[PartRow] = []
        self._part_ends = [0]


def rows_in(batches: Iterable[Any], names: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """The rows of Arrow batches as tuples of these columns, one batch in memory at a time."""
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)
