"""Plain records: which records are plain, and their events."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock import Event, event
from interlock.conditions import MatcherIndex
from interlock.events.kafka import decode, encode
from interlock.events.plain import TYPE, event_of_record, is_plain

Headers = Sequence[tuple[str, bytes | None]]


def read(
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Headers | None = None,
    timestamp_ms: int = 1_700_000_000_123,
) -> Event:
    return event_of_record("orders", 3, 4031, timestamp_ms, key, value, headers)


# -- which records are plain


@pytest.mark.parametrize(
    "headers",
    [
        None,
        [],
        [("content-type", b"application/json")],
        [("content-type", None)],
        [("trace", b"x"), ("cex", b"1")],
        [("content-type", b"application/cloud")],
    ],
)
def test_a_record_without_cloudevents_headers_is_plain(headers: Headers | None) -> None:
    assert is_plain(headers)


@pytest.mark.parametrize(
    "headers",
    [
        [("ce_type", b"x")],
        [("other", b"1"), ("ce_id", None)],
        [("content-type", b"application/cloudevents+json")],
        [("content-type", b"Application/CloudEvents+JSON; charset=utf-8")],
        [("content-type", b"application/cloudevents")],
    ],
)
def test_a_record_with_ce_headers_or_a_cloudevents_content_type_is_not(headers: Headers) -> None:
    assert not is_plain(headers)


def test_an_emitted_record_is_not_plain() -> None:
    assert not is_plain(encode(Event.of("x", "/s", id="1", data={"a": 1}))[2])


# -- their events


def test_each_attribute_comes_from_the_record() -> None:
    assert dict(read(b"customer 7", b'{"a": 1}').attributes) == {
        "specversion": "1.0",
        "type": "org.apache.kafka.record",
        "source": "orders",
        "id": "3/4031",
        "subject": "customer 7",
        "time": "2023-11-14T22:13:20.123Z",
        "datacontenttype": "application/json",
    }
    assert TYPE == "org.apache.kafka.record"


@pytest.mark.parametrize("key", [None, b"", b"\xff\xfe", b"a\nb", b"\x00"])
def test_a_key_that_is_not_text_gives_no_subject(key: bytes | None) -> None:
    assert "subject" not in read(key).attributes


@pytest.mark.parametrize(
    "key",
    [
        "Dupont\u00a0SA",
        "\u6771\u4eac\u3000\u652f\u5e97",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\U0001f468\u200d\U0001f469",
        "\U0001fae9",
    ],
    ids=["no-break space", "ideographic space", "zero width non-joiner", "joined emoji", "emoji of 2024"],
)
def test_a_key_in_any_script_is_the_subject_whatever_python_can_print(key: str) -> None:
    """It had no subject, so no matcher that names one or reads it accepted it (apache/pinot#17899)."""
    assert read(key.encode()).subject == key


@pytest.mark.parametrize(
    ("value", "content_type"),
    [
        (b'{"a": 1}', "application/json"),
        (b"[1]", "application/json"),
        (b"17", "application/json"),
        (b'"text"', "application/json"),
        (b"null", "application/json"),
        (b"a line", "text/plain"),
        (b"two\nlines\twith a tab\r\n", "text/plain"),
        ("ü".encode(), "text/plain"),
        (b"", "text/plain"),
        (b"{'a': 1}", "text/plain"),
        (b"\xff\xfe", "application/octet-stream"),
        (b"\x00\x00\x00\x00\x01\x06abc", "application/octet-stream"),  # the format of schema registries
        (b"[" * 100_000 + b"]" * 100_000, "text/plain"),
    ],
)
def test_the_content_type_is_detected_from_the_value(value: bytes, content_type: str) -> None:
    assert read(value=value).attributes["datacontenttype"] == content_type


def test_the_content_type_header_wins() -> None:
    assert read(headers=[("content-type", b"text/csv")]).attributes["datacontenttype"] == "text/csv"


@pytest.mark.parametrize("raw", [None, b"", b"\xff", b"no type", "ü/ü".encode(), b"a/b\r\nc"])
def test_an_invalid_content_type_header_is_ignored(raw: bytes | None) -> None:
    assert (
        read(value=b"1", headers=[("content-type", raw)]).attributes["datacontenttype"] == "application/json"
    )


def test_a_null_value_gives_neither_data_nor_content_type() -> None:
    made = read(value=None)
    assert made.data is None
    assert "datacontenttype" not in made.attributes


@pytest.mark.parametrize(
    ("timestamp_ms", "time"),
    [(0, "1970-01-01T00:00:00.000Z"), (-1, None), (10**17, "9999-12-31T23:59:59.000Z")],
)
def test_the_time_is_the_record_timestamp_if_there_is_one(timestamp_ms: int, time: str | None) -> None:
    assert read(timestamp_ms=timestamp_ms).attributes.get("time") == time


def test_a_condition_matches_the_fields_of_a_plain_json_record() -> None:
    index: MatcherIndex[str] = MatcherIndex()
    index.add("w", event(TYPE, source="orders", by="data.day", where="data.n > 1"))
    [hit] = index.lookup(read(value=json.dumps({"day": "2026-11-20", "n": 2}).encode()))
    assert hit.key == "2026-11-20"
    assert index.lookup(read(value=b'{"day": "2026-11-20", "n": 1}')) == []


@pytest.mark.parametrize("header", [b"/", b"a b/c", b"text/", b"a/b c"])
def test_a_header_that_is_no_media_type_does_not_count(header: bytes) -> None:
    made = read(value=b"{}", headers=[("content-type", header)])
    assert made.datacontenttype == "application/json"
    assert decode(*encode(made)).attributes == made.attributes


@given(
    st.none() | st.binary(max_size=50),
    st.none() | st.binary(max_size=200),
    st.none()
    | st.lists(st.tuples(st.sampled_from(["content-type", "x"]), st.none() | st.binary(max_size=20))),
    st.integers(-(2**63), 2**63 - 1),
)
def test_every_record_gives_a_valid_event_and_the_same_each_time(
    key: bytes | None, value: bytes | None, headers: Headers | None, timestamp_ms: int
) -> None:
    made = read(key, value, headers, timestamp_ms)
    assert made == read(key, value, headers, timestamp_ms)
    assert made.data == value
    assert decode(*encode(made)).attributes == made.attributes
