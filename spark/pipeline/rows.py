"""Rows of the pipeline: one for each record of a bus, with its event as the engine reads it.

A record never fails a job: one without a readable event becomes a row of kind `unreadable`, which keeps the
record and the reason.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from ...events.errors import EventError
from ...events.event import Event
from ...events.kafka import CONTENT_TYPE, decode
from ...events.listed import event_of_listed
from ...events.plain import TYPE as PLAIN
from ...events.proof import Proof

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KINDS: Final = ("event", "unreadable", "action", "subscription")

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
# docs/use/pipeline.md describes each column. (name, Spark's type, Arrow's type)
_COLUMNS: Final = (
    ("kind", StringType(), pa.string()),
    ("date", DateType(), pa.date32()),
    ("type_key", StringType(), pa.string()),
    ("topic", StringType(), pa.string()),
    ("partition", IntegerType(), pa.int32()),
    ("offset", LongType(), pa.int64()),
    ("appended_ms", LongType(), pa.int64()),
    ("timestamp_type", IntegerType(), pa.int32()),
    ("id", StringType(), pa.string()),
    ("source", StringType(), pa.string()),
    ("type", StringType(), pa.string()),
    ("subject", StringType(), pa.string()),
    ("time_us", LongType(), pa.int64()),
    ("attributes", MapType(StringType(), StringType()), pa.map_(pa.string(), pa.string())),
    ("data", BinaryType(), pa.binary()),
    ("key", BinaryType(), pa.binary()),
    ("value", BinaryType(), pa.binary()),
    ("headers", ArrayType(_HEADER), pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ("problem", StringType(), pa.string()),
)
SCHEMA: Final = StructType([StructField(name, kind) for name, kind, _ in _COLUMNS])
ARROW: Final = pa.schema([(name, kind) for name, _, kind in _COLUMNS])
# The most records, and bytes, of a batch that Spark passes to Python; each core holds one batch. More than
# some hundreds of records are not faster.
BATCH_RECORDS: Final = 500
BATCH_BYTES: Final = 16 * 1024 * 1024

# The key names a folder. Every file system accepts these characters in any locale of the JVM, and Spark does
# not escape them as %XX.
_FOLDER_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_OTHERS: Final = re.compile(r"[^A-Za-z0-9._-]")
_NULL_KEY: Final = "__HIVE_DEFAULT_PARTITION__"  # the name of the folder for null

# What Kafka's Java client reads for bytes that are not UTF-8.
_NOT_UTF8: Final = "\N{REPLACEMENT CHARACTER}"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_DAY: Final = date(1970, 1, 1)  # of `date` in rows
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY_MS: Final = 86_400_000
_LAST_DAY: Final = (date(9999, 12, 31) - FIRST_DAY).days

_Headers = Sequence[tuple[str, bytes | None]]


class TopicRow(NamedTuple):
    """A record of a topic with the connector's columns."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None
    headers: _Headers


def rows_of(
    raw: DataFrame, bus: str, cloudevents: Collection[str] = (), proof: Proof | None = None
) -> DataFrame:
    """Rows (SCHEMA) of the records in `raw`, which has the connector's columns with `includeHeaders`.

    cloudevents: the listed topics that hold CloudEvents (`BusTopics.cloudevents`). proof: `BusTopics.proof`.
    Batch or stream, in any order; one row per record. Memory per core: BATCH_RECORDS records or BATCH_BYTES,
    if `spark.sql.execution.arrow.maxRecordsPerBatch` and `maxBytesPerBatch` are set to them.
    """

    topics = frozenset(cloudevents)

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield read_batch(batch, bus, topics, proof)

    columns = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
    return raw.select(*columns).mapInArrow(read, SCHEMA)


def read_batch(batch: Any, bus: str, cloudevents: Collection[str] = (), proof: Proof | None = None) -> Any:
    """Converts an Arrow batch of records to one of rows."""
    rows = [row_of(record, bus, cloudevents, proof) for record in _records(batch)]
    columns = zip(*rows, strict=True) if rows else ([] for _ in ARROW)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW)


def row_of(
    record: TopicRow, bus: str, cloudevents: Collection[str] = (), proof: Proof | None = None
) -> tuple[object, ...]:
    """The row of a record, in the order of SCHEMA."""
    kind = record.topic.removeprefix(f"{bus}-")
    if kind in ("action", "subscription") and record.topic.startswith(f"{bus}-"):
        return _other_row(record, kind, None)
    try:
        return _event_row(record, *_event_of(record, bus, cloudevents, proof))
    except EventError as error:
        return _other_row(record, "unreadable", str(error))


def day_of(timestamp_ms: int) -> date:
    """The UTC day of a timestamp; before 1970 and after 9999 the nearest day of that range."""
    return FIRST_DAY + timedelta(days=max(0, min(timestamp_ms // _DAY_MS, _LAST_DAY)))


def type_key(name: str) -> str:
    """The value of `type_key` for an event type: the type itself if it can name a folder.

    Otherwise its first 60 characters, with `_` for the ones that cannot, and a digest after `~`.
    """
    if _FOLDER_NAME.fullmatch(name) and name != _NULL_KEY:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{_OTHERS.sub('_', name[:60])}~{digest}"


def _event_of(
    record: TopicRow, bus: str, cloudevents: Collection[str], proof: Proof | None
) -> tuple[Event, _Headers]:
    """The event as the engine reads it, and the headers that are not its attributes."""
    if any(_NOT_UTF8 in name for name, _ in record.headers):  # the engine's client cannot read such a record
        raise EventError("the name of a header is not UTF-8")
    if record.topic != f"{bus}-event":
        event = event_of_listed(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp_ms,
            record.key,
            record.value,
            record.headers,
            cloudevents=record.topic in cloudevents,
        )
        if event.type == PLAIN:
            return event, record.headers
    else:
        event = decode(record.key, record.value, record.headers)
        if proof is not None:
            proof.check(event, record.timestamp_ms)
    if event.data is not record.value:  # structured: the attributes are in the value
        return event, record.headers
    return event, [header for header in record.headers if not _is_attribute(*header)]


def _is_attribute(name: str, raw: bytes | None) -> bool:
    return raw is not None and (name.startswith("ce_") or name == CONTENT_TYPE)


def _event_row(record: TopicRow, event: Event, headers: _Headers) -> tuple[object, ...]:
    time = event.time
    return (
        "event",
        day_of(record.timestamp_ms),
        type_key(event.type),
        *record[:5],
        event.id,
        event.source,
        event.type,
        event.subject,
        None if time is None else (time - _EPOCH) // _MICROSECOND,
        list(event.attributes.items()),
        event.data,
        record.key,
        None,
        _structs(headers),
        None,
    )


def _other_row(record: TopicRow, kind: str, problem: str | None) -> tuple[object, ...]:
    if problem is not None:  # it may quote bytes of the record
        problem = problem.encode("utf-8", "backslashreplace").decode()
    return (
        kind,
        day_of(record.timestamp_ms),
        type_key(record.topic),
        *record[:5],
        *(None,) * 7,
        record.key,
        record.value,
        _structs(record.headers),
        problem,
    )


def _structs(headers: _Headers) -> list[dict[str, object]] | None:
    return [{"key": name, "value": raw} for name, raw in headers] or None


def _records(batch: Any) -> Iterator[TopicRow]:
    column = dict(zip(batch.schema.names, batch.columns, strict=True))
    stamps = column["timestamp"].cast(pa.int64()).to_pylist()  # microseconds, which Spark counts in
    topics, partitions, offsets, types, keys, values = (
        column[name].to_pylist() for name in ("topic", "partition", "offset", "timestampType", "key", "value")
    )
    millis = (-1 if stamp is None else stamp // 1000 for stamp in stamps)
    return map(
        TopicRow, topics, partitions, offsets, millis, types, keys, values, _headers(column["headers"])
    )


def _headers(column: Any) -> Iterator[_Headers]:
    """The headers of each record, from the flat columns: a dict for each would take most of the time."""
    if pa.types.is_null(column.type):
        return iter([()] * len(column))
    names, raws = (part.to_pylist() for part in column.values.flatten())
    pairs = list(zip(names, raws, strict=True))
    # A null has the offsets of an empty list.
    return (pairs[begin:end] for begin, end in pairwise(column.offsets.to_pylist()))
