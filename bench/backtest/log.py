"""Writes an archive like the archive job, without a broker: orders and rates of many keys, one of them
hot."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from interlock.spark.pipeline.rows import ARROW, type_key

TYPES = ("com.example.orders.done", "com.example.rates.published", "com.example.other")
CONDITION = (
    "(event('com.example.orders.done', by='data.order', label='orders')"
    " & event('com.example.rates.published', by='data.order', label='rates')).expires(after='6h')"
)
HOT = "order-hot"
_HOT_SHARE = 0.2
_OTHER_SHARE = 0.05  # events of a type that the condition ignores
_REPEAT_SHARE = 0.01
_START = datetime(2026, 11, 18, 21, tzinfo=UTC)
_SPAN_S = 3 * 86_400
_PARTITIONS = 8
_FILE_ROWS = 100_000
_SCHEMA = pa.schema(
    [
        ARROW.field(name)
        for name in (
            "topic",
            "partition",
            "offset",
            "appended_ms",
            "timestamp_type",
            "id",
            "source",
            "type",
            "subject",
            "time_us",
            "attributes",
            "data",
        )
    ]
)


def write(folder: Path, events: int, keys: int, seed: int = 7) -> None:
    """Writes an archive of `events` events; one of `keys` keys has a fifth of them."""
    batch = folder / "batch=0.000001-00000000"
    held: dict[tuple[date, str], list[tuple[object, ...]]] = {}
    for number, (day, row) in enumerate(_rows(events, keys, seed), 1):
        held.setdefault((day, str(row[7])), []).append(row)
        if number % _FILE_ROWS == 0 or number == events:
            for (of_day, type_), rows in held.items():
                path = batch / "kind=event" / f"date={of_day}" / f"type_key={type_key(type_)}"
                path.mkdir(parents=True, exist_ok=True)
                columns = zip(*rows, strict=True)
                arrays = [pa.array(c, field.type) for c, field in zip(columns, _SCHEMA, strict=True)]
                pq.write_table(
                    pa.Table.from_arrays(arrays, schema=_SCHEMA), path / f"part-{number:08d}.parquet"
                )
            held.clear()
    (batch / "_SUCCESS").touch()


def _rows(events: int, keys: int, seed: int) -> Iterator[tuple[date, tuple[object, ...]]]:
    draw = random.Random(seed)
    offsets = [0] * _PARTITIONS
    step_ms = _SPAN_S * 1000 / events
    start_ms = int(_START.timestamp() * 1000)
    sent: list[tuple[str, str, str]] = []
    for number in range(events):
        stamp = start_ms + int(number * step_ms)
        if sent and draw.random() < _REPEAT_SHARE:
            id_, type_, key = draw.choice(sent[-1000:])
        else:
            other = draw.random() < _OTHER_SHARE
            type_ = TYPES[2] if other else TYPES[draw.randrange(2)]
            key = HOT if draw.random() < _HOT_SHARE else f"order-{draw.randrange(keys - 1)}"
            id_ = f"{number:x}"
            sent.append((id_, type_, key))
            if len(sent) > 2000:
                del sent[:1000]
        partition = hash_of(key) % _PARTITIONS
        moment = _START + timedelta(milliseconds=stamp - start_ms)
        data = f'{{"order": "{key}", "amount": {number % 997}.5, "note": "{"x" * 40}"}}'.encode()
        attributes = [
            ("specversion", "1.0"),
            ("id", id_),
            ("source", "/bench/shop"),
            ("type", type_),
            ("time", moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")),
            ("datacontenttype", "application/json"),
        ]
        row = ("bench-event", partition, offsets[partition], stamp, 1, id_, "/bench/shop", type_, None)
        offsets[partition] += 1
        yield moment.date(), (*row, stamp * 1000, attributes, data)


def hash_of(text: str) -> int:
    """A hash that is the same in every process."""
    return int.from_bytes(text.encode(), "big") % 1_000_003
