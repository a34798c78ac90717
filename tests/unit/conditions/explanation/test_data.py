"""Data that cannot be read: `by` and `where` both say what they look like, without showing them."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock.conditions import EMPTY, Matcher, event, explain
from interlock.conditions.explanation.formats import looks_like
from interlock.conditions.explanation.near_miss import NearMiss
from interlock.conditions.filters import Any as AnyFilter
from interlock.conditions.filters import Exact, Prefix, Sql
from interlock.events import Event

NOON_MS = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp() * 1000)
SECRET = {"day": "2026-11-20", "iban": "DE02SECRET"}
TEXT = json.dumps(SECRET)
BYTES = TEXT.encode()
BY, WHERE = event("t", by="data.day"), event("t", where="data.day == '2026-11-20'")


def miss_of(matcher: Matcher, data: Any, stated: str | None = "application/json", **given: Any) -> NearMiss:
    seen = Event.of("t", "/s", id="e", data=data, datacontenttype=stated, **given)
    [found] = explain(matcher, EMPTY, NOON_MS, [seen], "k" if matcher.by else None).near_misses
    [miss] = found.misses
    return miss


FORMATS = [
    (b"", "its data is empty (0 bytes)"),
    (b"  \n", "spaces only"),
    (b'{"day": NaN}', "JSON with NaN, which JSON does not have"),
    (b'{"day": 1, "x": -Infinity}', "JSON with -Infinity, which JSON does not have"),
    (b"\xef\xbb\xbf" + BYTES, "JSON after a byte order mark (UTF-8)"),
    (TEXT.encode("utf-16"), "JSON after a byte order mark (UTF-16-LE)"),
    (TEXT.encode("utf-16-be"), "JSON in UTF-16-BE"),
    ('{"day": "Zürich"}'.encode("latin-1"), "JSON in another encoding than UTF-8, such as Latin-1"),
    (json.dumps(TEXT).encode(), "a text that itself holds JSON, an object: it was encoded twice"),
    (b"\x00\x00\x00\x00\x07\x02abc", "the format of a schema registry (a zero byte and schema id 7)"),
    (b"\x00\x00\x00\x00\x07" + BYTES, "JSON after the prefix of a schema registry"),
    (b"Obj\x01\x04", "an Avro file"),
    (b"\xc3\x01" + b"x" * 9, "Avro's single-object encoding"),
    (b"\x03\x00" + b"x" * 17, "AWS Glue's schema registry"),
    (gzip.compress(BYTES), "gzip"),
    (b"\x28\xb5\x2f\xfd\x00", "Zstandard"),
    (pickle.dumps(SECRET), "a Python pickle"),
    (b"\xac\xed\x00\x05sr", "a Java object"),
    (b"PAR1\x15", "a Parquet file"),
    (b"<?xml version='1.0'?><a/>", "XML or HTML"),
    (str(SECRET).encode(), "Python's text of a value"),
    (BYTES[:-4], "JSON that is cut off at its end"),
    (BYTES + b"\n" + BYTES, "several JSON values, one on each line (JSON Lines)"),
    (BYTES + b";", "JSON followed by other text"),
    (b'{"day": 1,}', "JSON with a mistake"),
    (b'{"day": 1} // c', "JSON followed by other text"),
    (b'{"day": "a\nb"}', "JSON with a character that must be escaped"),
    (b'{"day": 1e999}', "JSON with a number that is too large to be read"),
    (b'{"day": -1' + b"0" * 5000 + b".5}", "JSON with a number that is too large to be read"),
    (b'{"day": "\\ud83d"}', "JSON with half a surrogate pair, which is no character"),
    (b'{"day": "2026-11-20", "open": fal', "JSON that is cut off at its end"),
    (b'{"day": "2026-11-20", "at": "\\u00', "JSON that is cut off at its end"),
    (b'{"day": "2026-11-20", "rows": -', "JSON that is cut off at its end"),
    (b"[" * 501 + b"]" * 501, "JSON that is nested too deeply"),
    (base64.b64encode(BYTES), "JSON in base64"),
    (BYTES.hex().encode(), "JSON in hexadecimal"),
    (b"%7B%22day%22%3A1%7D", "JSON with percent escapes"),
    (b"day=2026-11-20&iban=DE02SECRET", "form fields"),
    (b"day: 2026-11-20\niban: x\n", "YAML"),
    (b"day,iban\n2026-11-20,DE02SECRET\n", "CSV"),
    (b"done", "text"),
    (zlib.compress(BYTES), "bytes of an unknown format"),
    (b"[1, 2]", None),
    (b"null", "its data is null, not an object"),
    (b"7", "its data is a number, not an object"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "expected_text"), FORMATS, ids=[str(text) for _, text in FORMATS])
def test_by_and_where_both_name_what_unreadable_data_look_like(
    data: bytes, expected_text: str | None
) -> None:
    """Data that are no JSON (NaN, a BOM, encoded twice, Avro's magic byte and others of this kind)."""
    by, where = miss_of(BY, data), miss_of(WHERE, data)
    for miss in (by, where):
        assert expected_text is None or expected_text in str(miss), str(miss)
        assert "SECRET" not in str(miss)
        assert "SECRET" not in json.dumps(miss.to_json())
    assert by.why in ("no key", "no data")
    assert where.why == "error"


@pytest.mark.parametrize("matcher", [BY, WHERE], ids=["by", "where"])
def test_data_of_another_content_type_are_pointed_out_with_the_type_and_the_format(matcher: Matcher) -> None:
    """`by` said that the data is no JSON where `where` said nothing."""
    text = str(miss_of(matcher, b"\x00\x00\x00\x00\x07\x02abc", "application/octet-stream"))
    assert "its data is application/octet-stream, not JSON: it looks like the format of a schema" in text
    assert "its data is text/plain, not JSON: it looks like JSON, an object" in str(
        miss_of(matcher, BYTES, "text/plain")
    )


@pytest.mark.parametrize("matcher", [BY, WHERE], ids=["by", "where"])
def test_an_event_without_data_is_pointed_out(matcher: Matcher) -> None:
    """A tombstone has no data."""
    assert "it has no data (a null value)" in str(miss_of(matcher, None, None))


def test_a_predicate_that_refuses_because_there_is_no_json_says_so_without_an_error() -> None:
    """With data that are no JSON, `data` is null: a predicate may be false without failing."""
    miss = miss_of(event("t", where="data != null"), b"<a/>", "text/xml")
    assert miss.why == "term"
    assert "refused it: its data is text/xml, not JSON: it looks like XML or HTML" in str(miss)


@pytest.mark.parametrize(
    ("by", "data", "expected_text"),
    [
        (
            "data.a.day",
            {"a": json.dumps({"day": 1})},
            "its data.a is a text that itself holds JSON, an object",
        ),
        ("data.a.day", {"a": [{"day": 1}]}, "its data.a is a list, not an object"),
        ("data.day", [{"day": 1}], "its data is a list, not an object"),
        ("data.day", {"Day": 1}, 'its data has no member "day", but "Day"'),
        ("data.payload.day", {"day": 1}, 'has no member "payload", but "day" itself: data.day'),
        ("data.a.after.id", {"a": {"id": 1}}, 'its data.a has no member "after", but "id" itself: data.a.id'),
        ("data.business_day", {"businessDay": 1}, 'has no member "business_day", but "businessDay"'),
        ("data.businessDay", {"business-day ": 1}, 'has no member "businessDay", but "business-day "'),
        (
            "data.order.day",
            {"order.day": 1},
            'a member "order.day", whose name has a dot: by= cannot reach it',
        ),
        ("data.a.b.c.d", {"a": {"b.c": {"d": 1}}}, 'its data.a has a member "b.c", whose name has a dot'),
        ("data.day", {"schema": {}, "payload": {"day": 1}}, 'the member is at "data.payload.day"'),
        ("data.id", {"before": None, "after": {"id": 1}, "op": "c"}, 'the member is at "data.after.id"'),
        ("data.region", {"day": 1}, 'the event has an attribute of this name: by="region"'),
        ("day", {"day": 1}, 'it has no attribute day, but its data has a member "day": by="data.day"'),
        ("day(data.day, Europe/Berlin)", {"day": "soon"}, "its data.day is neither a date nor a time"),
        ("data.day + 1d", {"day": "soon"}, "its data.day is neither a date nor a time"),
        ("day(data.day, UTC)", {"day": 1795132800}, "its data.day is a number, and by= does not say of what"),
        (
            "day(data.day, UTC)",
            {"day": "1795132800"},
            'unit="s", "ms", "us", "ns" or "d"; with "s" it is in this',
        ),
        (
            "day(data.day, UTC)",
            {"day": 20777},
            'write unit="s", "ms", "us", "ns" or "d"; with "d" it is in this',
        ),
        ("day(data.day, UTC, ms)", {"day": 1795132800000000}, 'and with unit="us" it is in this century'),
        ("day(data.day, UTC, us)", {"day": 1795132800000000000}, 'and with unit="ns" it is in this century'),
        ("day(data.day, UTC, s)", {"day": 10**15}, 'is not a time in the years 1 to 9999 with unit="s"'),
        ("day(data.day, UTC)", {"day": "2026-11-20T05:00"}, "its data.day is a time without a zone"),
        ("data.day + 1d", {"day": "20261120T050000"}, "its data.day is a time without a zone"),
        (
            "day(data.day, Asia/Tokyo)",
            {"day": "9999-12-31T23:00:00Z"},
            "its data.day is outside the years 1 to 9999",
        ),
        ("hour(data.day, UTC)", {"day": "20261120"}, "its data.day is a day, which has no hour"),
        ("hour(data.day, UTC, ms)", {"day": "2026-11-20"}, "its data.day is a day, which has no hour"),
        ("hour(data.day, UTC, d)", {"day": 20777}, "its data.day is a day, which has no hour"),
        ("data.day + 1h", {"day": 20261120}, "its data.day is a day, to which only whole days can be added"),
        ("day(data.day, UTC)", {"day": True}, "its data.day is neither a date nor a time"),
        ("data.day", {"day": "x" * 513}, "its data.day is longer than 512 bytes of UTF-8"),
        ("data.day", {"day": "a\0"}, "its data.day holds a NUL character"),
        ("data.id", {"schema": {}, "payload": {"after": {"id": 1}}}, 'is at "data.payload.after.id"'),
        ("data.id", {"before": {"id": 1}, "after": None, "op": "d"}, 'the member is at "data.before.id"'),
        (
            "data.after.id",
            {"before": {"id": 1}, "after": None, "op": "d"},
            'as in the event of a deletion, whose row is at "data.before"',
        ),
        (
            "data.payload.before.id",
            {"payload": {"before": None, "after": {"id": 1}}},
            'as in the event of an insertion, whose row is at "data.payload.after"',
        ),
        ("data.before.id", {"before": None, "after": None}, "its data.before is null, not an object"),
        (
            "data.id",
            {"after": '{"id": 1}', "op": "c"},
            "its data is an envelope: its data.after is a text that itself holds JSON with the member",
        ),
        (
            "data.id",
            {"schema": {"type": "string"}, "payload": '{"id": 1}'},
            "its data.payload is a text that itself holds JSON with the member: it was encoded twice",
        ),
        ("data.id", {"fullDocument": {"id": 1}}, 'the member is at "data.fullDocument.id"'),
        (
            "data.id",
            {"data": [{"id": 1}], "type": "INSERT"},
            "its data.data is a list whose items have the member; by= cannot reach them",
        ),
        (
            "data.day",
            {"day": {"string": "2026-11-20"}},
            'its data.day is an object that names a type: the value is at "data.day.string"',
        ),
        ("data.day", {"day": {"$date": 1}}, 'the value is at "data.day.$date"'),
    ],
)
def test_a_path_without_a_value_is_explained_with_where_the_value_is(
    by: str, data: Any, expected_text: str
) -> None:
    """Members encoded twice, envelopes of Kafka Connect and Debezium, and a path to the wrong place.

    A deletion's row is in `before` (apache/hudi#2149), MongoDB's row and an outbox's payload are texts
    (debezium/debezium#2710 and #8008), and Avro's JSON names the type of a union (apache/hudi#2149).
    """
    assert expected_text in str(miss_of(event("t", by=by), data, region="eu"))


@pytest.mark.parametrize(
    ("where", "data", "expected_text"),
    [
        ("data.day == 1", {"payload": {"day": 1}}, 'the member is at "data.payload.day"'),
        ("data.day == 1", {"payload": {"after": {"day": 1}}}, 'the member is at "data.payload.after.day"'),
        ("data.a.day > 1", {"a": {"Day": 2}}, 'its data.a has no member "day", but "Day"'),
        ("data.a.day > 1", {"a": [{"day": 2}]}, "its data.a is a list, not an object"),
        ("data.order.day == 1", {"order.day": 1}, "whose name has a dot: write data['order.day']"),
        ("data.a.b.c == 1", {"a": {"b.c": 1}}, "whose name has a dot: write data.a['b.c']"),
        ("data.day == 1", [{"day": 1}], "its data is a list, not an object"),
        ("data.region == 'eu'", {"day": 1}, "the event has an attribute of this name: event.region"),
        ("data.day == 1", {"x": 1}, 'Key not found in map : "day"'),
        ("size(data.day) > 1", {"day": 1}, "No matching overloads"),
        ("data.n > 100", {"n": "120.50"}, "its data.n is a text: write double(data.n)"),
        ("data.x == 1 && data.n > 1.5", {"x": 1, "n": "many"}, "its data.n is a text, no number"),
        ("data.after.tax > 1.0", {"after": {"tax": "BAg="}}, "no number: perhaps base64, as Debezium writes"),
        ("double(data.n) > 1.0", {"n": "BAg="}, "decimal.handling.mode is string or double"),
        (
            "timestamp(data.at) > timestamp('2026-01-01T00:00:00Z')",
            {"at": 1795129200000},
            "reads as seconds: for milliseconds write timestamp(int(data.at) / 1000)",
        ),
        (
            "data.x == 1 && timestamp(data.a.day) > timestamp('2026-01-01T00:00:00Z')",
            {"x": 1, "a": {"day": "2026-11-20"}},
            "is a date: for its midnight in UTC write timestamp(data.a.day + 'T00:00:00Z')",
        ),
        (
            "timestamp(data.at).getFullYear() == 2026",
            {"at": "2026-11-20T06:00:00"},
            "is a time without a zone: if it is in UTC write timestamp(data.at + 'Z')",
        ),
        ("timestamp(data.at).getFullYear() == 2026", {"at": "soon"}, "Timestamp conversion failed"),
        ("data.s.startsWith(data.n)", {"s": "a", "n": "b", "x": 1}, "refused it"),
        (
            "has(data.after) && data.after.n > 3",
            {"before": {"n": 4}, "after": None},
            'as in the event of a deletion, whose row is at "data.before"',
        ),
    ],
)
def test_a_predicate_on_a_member_that_is_elsewhere_says_where_as_by_does(
    where: str, data: Any, expected_text: str
) -> None:
    """Decimals are base64 by default (risingwavelabs/risingwave#10628, apache/flink-cdc#1177)."""
    text = str(miss_of(event("t", where=where), data, region="eu"))
    assert ("could not be evaluated: " in text) is (expected_text != "refused it")
    assert expected_text in text


@pytest.mark.parametrize(
    "terms",
    [
        {"day": "1"},
        {"filters": [Prefix(day="1")]},
        {"filters": [Sql("day = '1'")]},
        {"filters": [AnyFilter(Exact(day="1"), Exact(day="2"))]},
        {"where": "event.day == '1'"},
        {"where": "has(event.day) && event.day == '1'"},
    ],
    ids=["exact", "prefix", "sql", "any", "where", "where that asks first"],
)
def test_an_attribute_that_is_a_member_of_the_data_is_explained_with_what_to_write(
    terms: dict[str, Any],
) -> None:
    expected_text = 'it has no attribute day, but its data has a member "day": where="data.day == ..."'
    assert expected_text in str(miss_of(event("t", **terms), {"day": "1"}))
    assert "its data has" not in str(miss_of(event("t", **terms), {"other": "1"}))


@given(st.binary(max_size=200))
def test_any_bytes_look_like_something_without_being_shown(data: bytes) -> None:
    found = looks_like(data)
    assert found is not None
    assert len(found) < 120


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=20))
def test_any_json_looks_like_json(value: Any) -> None:
    assert "JSON" in (looks_like(json.dumps(value).encode()) or "")


@pytest.mark.parametrize("data", [b"[" * 100_000, b"{" * 100_000, b"(" * 100_000, b"\x00" * 100_000])
def test_hostile_data_are_named_too(data: bytes) -> None:
    assert looks_like(data)


@pytest.mark.parametrize(
    ("by", "attribute"), [("key", "subject"), ("topic", "source"), ("timestamp", "time")]
)
def test_a_part_of_a_plain_record_is_named_by_its_attribute(by: str, attribute: str) -> None:
    plain = Event(
        {"specversion": "1.0", "type": "org.apache.kafka.record", "source": "orders", "id": "orders[0]@0"}
    )
    miss = explain(event(source="orders", by=by), EMPTY, 0, [plain], "k").near_misses[0].misses[0]
    assert f'it has no attribute {by}: a plain record has it as {attribute}, by="{attribute}"' in str(miss)


@pytest.mark.parametrize(
    ("where", "at"),
    [
        ("timestamp(int(data.at) / 1000).getFullYear() == 2026", 1795129200000),
        ("timestamp(data.at + 'T00:00:00Z').getFullYear() == 2026", "2026-11-20"),
        ("timestamp(data.at + 'Z').getFullYear() == 2026", "2026-11-20T06:00:00"),
    ],
)
def test_what_to_write_for_a_time_works(where: str, at: object) -> None:
    assert event("t", where=where).accepts(Event.of("t", "/s", data={"at": at}))
