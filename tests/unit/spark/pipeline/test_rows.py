"""Rows: one for each record, whatever it holds; events are read as the engine reads them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.reading.sources import event_of
from interlock.events.errors import EventError
from interlock.events.proof import Proof
from interlock.spark.pipeline.rows import SCHEMA, TopicRow, day_of, read_batch, row_of, type_key

BUS = "orders"
STAMP = 1_763_596_800_123  # 2025-11-20T00:00:00.123Z
BINARY = [
    ("ce_specversion", b"1.0"),
    ("ce_id", b"17"),
    ("ce_source", b"/rates"),
    ("ce_type", b"com.example.rates"),
    ("ce_time", b"2025-11-20T06:00:00.000001Z"),
    ("ce_region", "Köln".encode()),
    ("content-type", b"application/json"),
]


def record(
    value: bytes | None = b"{}",
    headers: list[tuple[str, bytes | None]] | None = None,
    topic: str = "event",
    key: bytes | None = b"EUR",
    timestamp_ms: int = STAMP,
) -> TopicRow:
    name = topic if topic.startswith("/") else f"{BUS}-{topic}"
    return TopicRow(name.lstrip("/"), 3, 41, timestamp_ms, 1, key, value, headers or [])


PROOF = {"interlock.proof.secret": "s" * 32, "interlock.proof.from": "2025-11-20T00:00:00Z"}
VALID = b"1.110a369c.b3b006d918eaca0504343ad714be3b2deb80aafbaee71a3e2ed92576e9a381f4"
OWN = [(name, b"interlock.x" if name == "ce_type" else raw) for name, raw in BINARY]


def row(of: TopicRow, settings: dict[str, str] | None = None) -> dict[str, Any]:
    proof = Proof.of(settings or {}, f"{BUS}-event")
    return dict(zip(SCHEMA.names, row_of(of, BUS, ("/clicks",), proof), strict=True))


def test_the_row_of_an_event_has_its_attributes_its_data_and_its_records_position() -> None:
    found = row(record(b'{"a": 1.0}', [*BINARY, ("trace", b"\x00\xff"), ("ce_unset", None)]))
    attributes = dict(found.pop("attributes"))
    assert attributes["region"] == "Köln"
    assert attributes["datacontenttype"] == "application/json"
    assert found == {
        "kind": "event",
        "date": date(2025, 11, 20),
        "type_key": "com.example.rates",
        "topic": "orders-event",
        "partition": 3,
        "offset": 41,
        "appended_ms": STAMP,
        "timestamp_type": 1,
        "id": "17",
        "source": "/rates",
        "type": "com.example.rates",
        "subject": None,
        "time_us": 1_763_618_400_000_001,
        "data": b'{"a": 1.0}',
        "key": b"EUR",
        "value": None,
        "headers": [{"key": "trace", "value": b"\x00\xff"}, {"key": "ce_unset", "value": None}],
        "problem": None,
    }


STRUCTURED = [("content-type", b"application/cloudevents+json")]
READ_AS_THE_ENGINE_DOES: dict[str, TopicRow] = {
    "binary": record(b"{}", BINARY),
    "binary without data": record(None, BINARY),
    "structured": record(
        b'{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"b": 1.50}}', STRUCTURED
    ),
    "structured with base64": record(
        b'{"specversion":"1.0","id":"1","source":"s","type":"t","datacontenttype":"image/png",'
        b'"data_base64":"AAE="}',
        STRUCTURED,
    ),
    "structured in a listed topic": record(
        b'{"specversion":"1.0","id":"1","source":"s","type":"t"}', STRUCTURED, "/clicks"
    ),
    "binary in a listed topic": record(b"{}", BINARY, "/clicks"),
    "plain in a listed topic": record(b"hello", [("h", b"x")], "/clicks"),
    "plain and null": record(None, None, "/clicks", key=None),
    "plain with bytes": record(b"\x00\xff", [("content-type", b"\xff")], "/clicks", key=b"\xff"),
    "plain stamped beyond the calendar": record(b"1", None, "/clicks", timestamp_ms=2**62),
    "plain without a stamp": record(b"1", None, "/clicks", timestamp_ms=-1),
    "plain in a topic that begins as the bus does": record(b"1", None, "actions"),
    "plain in the event topic": record(b"{}", [("h", b"x")]),
    "null in the event topic": record(None),
    "attributes missing": record(b"{}", BINARY[:2]),
    "a header that is no UTF-8": record(b"{}", [*BINARY[:3], ("ce_type", b"\xff\xfe"), ("ce_\ud800", b"")]),
    "a header with a null byte": record(b"{}", [*BINARY[:3], ("ce_type", b"a\x00b")]),
    "a header twice": record(b"{}", [*BINARY, ("ce_id", b"18")]),
    "structured and no JSON": record(b'{"id": "\\ud800"', STRUCTURED),
    "structured with half a character": record(
        b'{"specversion":"1.0","id":"\\ud800","source":"s","type":"t"}', STRUCTURED
    ),
    "structured and deep": record(b'{"data":' + b"[" * 100_000, STRUCTURED),
    "structured without a value": record(None, STRUCTURED),
    "a batch of events": record(b"[]", [("content-type", b"application/cloudevents-batch+json")]),
    "of an own type": record(b"{}", OWN),
    "of an own type before proofs": record(b"{}", OWN, timestamp_ms=STAMP - 1000),
    "of an own type with a wrong proof": record(b"{}", [*OWN, ("ce_interlockproof", b"1.x.y")]),
    "of an own type with its proof": record(b"{}", [*OWN, ("ce_interlockproof", VALID)]),
    "a huge type": record(b"{}", [*BINARY[:3], ("ce_type", b"t" * 900_000)]),
}


@pytest.mark.parametrize("settings", [{}, PROOF], ids=["", "with proofs"])
@pytest.mark.parametrize("name", READ_AS_THE_ENGINE_DOES)
def test_a_record_is_read_as_the_engine_reads_it(name: str, settings: dict[str, str]) -> None:
    given = READ_AS_THE_ENGINE_DOES[name]
    config = BusConfig(BUS, client={"bootstrap.servers": "localhost:1", **settings})
    found = row(given, settings)
    try:
        event = event_of(
            config,
            ("/clicks",),
            Record(
                source=TopicPartition(given.topic, given.partition),
                offset=given.offset,
                timestamp_ms=given.timestamp_ms,
                key=given.key,
                value=given.value,
                headers=given.headers,
            ),
        )
    except EventError as error:
        assert (found["kind"], found["value"]) == ("unreadable", given.value)
        assert found["headers"] == ([{"key": k, "value": v} for k, v in given.headers] or None)
        problem = str(error).encode("utf-8", "backslashreplace").decode()
        assert found["problem"] == problem
        assert found["type_key"] == given.topic
        assert found["attributes"] is None
    else:
        assert (found["kind"], found["value"]) == ("event", None)
        assert (dict(found["attributes"]), found["data"]) == (event.attributes, event.data)
        assert (found["id"], found["source"], found["type"]) == (event.id, event.source, event.type)


def test_an_event_of_an_own_type_without_the_proof_that_it_needs_is_no_event() -> None:
    kinds = {
        name.removeprefix("of an own type"): row(given, PROOF)["kind"]
        for name, given in READ_AS_THE_ENGINE_DOES.items()
        if name.startswith("of an own type")
    }
    assert kinds == {
        "": "unreadable",
        " before proofs": "event",
        " with a wrong proof": "unreadable",
        " with its proof": "event",
    }


def test_headers_are_kept_when_the_attributes_are_in_the_value() -> None:
    found = row(READ_AS_THE_ENGINE_DOES["structured"])
    assert found["headers"] == [{"key": "content-type", "value": STRUCTURED[0][1]}]


@pytest.mark.parametrize("kind", ["action", "subscription"])
def test_records_of_the_engine_are_kept_unchanged(kind: str) -> None:
    found = row(record(b'{"a":1}', BINARY, kind))
    assert (found["kind"], found["type_key"]) == (kind, f"orders-{kind}")
    assert (found["value"], found["key"], len(found["headers"])) == (b'{"a":1}', b"EUR", len(BINARY))
    assert (found["data"], found["attributes"], found["problem"]) == (None, None, None)


@pytest.mark.parametrize(
    ("stamp", "day"),
    [
        (-1, date(1970, 1, 1)),
        (86_400_000 - 1, date(1970, 1, 1)),
        (86_400_000, date(1970, 1, 2)),
        (2**62, date(9999, 12, 31)),
    ],
)
def test_the_day_of_any_timestamp_names_a_folder(stamp: int, day: date) -> None:
    assert day_of(stamp) == day


@pytest.mark.parametrize(
    "name", ["a" * 101, "ö", "a/b", "__HIVE_DEFAULT_PARTITION__", " ", "a~b", "\U0001f600" * 200]
)
def test_a_type_that_cannot_name_a_folder_gets_a_key_that_can(name: str) -> None:
    key = type_key(name)
    assert key.isascii()
    assert len(key) <= 77
    assert "/" not in key
    assert key != type_key(name + "x")
    assert type_key("com.example.Rates_1-a") == "com.example.Rates_1-a"


def test_a_batch_of_records_of_all_kinds_gives_a_row_for_each() -> None:
    given = [*READ_AS_THE_ENGINE_DOES.values(), record(topic="action")]
    given = [
        each._replace(headers=[(n.replace("\ud800", "?"), v) for n, v in each.headers]) for each in given
    ]
    stamps = [min(each.timestamp_ms, 2**52) * 1000 for each in given]
    raw = pa.RecordBatch.from_pydict(
        {
            "topic": [each.topic for each in given],
            "partition": pa.array([each.partition for each in given], pa.int32()),
            "offset": [each.offset for each in given],
            "timestamp": pa.array(stamps, pa.timestamp("us", "Europe/Berlin")),
            "timestampType": pa.array([1] * len(given), pa.int32()),
            "key": pa.array([each.key for each in given], pa.binary()),
            "value": pa.array([each.value for each in given], pa.binary()),
            "headers": pa.array(
                [[{"key": n, "value": v} for n, v in each.headers] or None for each in given],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )
    for piece in (raw, raw.slice(3, 7), raw.slice(0, 0)):
        found = read_batch(piece, BUS)
        at = 0 if piece is raw else 3
        expected = [
            row_of(each._replace(timestamp_ms=stamp // 1000), BUS)
            for each, stamp in zip(given[at:][: len(piece)], stamps[at:], strict=False)
        ]
        assert [tuple(each.values()) for each in found.to_pylist()] == expected
        assert found.schema.names == SCHEMA.names


def test_times_of_events_are_exact_to_the_microsecond() -> None:
    for text in ("0001-01-01T00:00:00.000001Z", "9999-12-31T23:59:59.999999Z", "2025-11-20T06:00:00+02:00"):
        headers = [(n, text.encode() if n == "ce_time" else v) for n, v in BINARY]
        micros = row(record(b"", headers))["time_us"]
        seconds, rest = divmod(micros, 1_000_000)
        assert (seconds, rest) == _exact(text)
    assert row(record(b"", BINARY[:4]))["time_us"] is None


def _exact(text: str) -> tuple[int, int]:
    at = datetime.fromisoformat(text)
    whole = at.replace(microsecond=0) - datetime(1970, 1, 1, tzinfo=UTC)
    return whole.days * 86400 + whole.seconds, at.microsecond


@pytest.mark.parametrize("topic", ["event", "/orders"])
def test_a_record_that_the_engines_client_cannot_unpack_is_unreadable_here_too(topic: str) -> None:
    """A header whose name is not UTF-8: Kafka's Java client reads it as a replacement character."""
    found = row(record(b"{}", [*BINARY, ("caf\N{REPLACEMENT CHARACTER}", b"v")], topic))
    assert (found["kind"], found["problem"]) == ("unreadable", "the name of a header is not UTF-8")
