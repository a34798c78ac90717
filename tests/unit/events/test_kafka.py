"""Reading and writing records. Cases R1-R11: docs/use/events.md."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock.events import Event, EventError
from interlock.events.kafka import decode, encode

HEADERS = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]
STRUCTURED = [("content-type", b"application/cloudevents+json")]


def structured(**members: object) -> bytes:
    return json.dumps({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **members}).encode()


def test_a_binary_record_gives_its_attributes_and_the_bytes_of_its_data() -> None:
    event = decode(b"k", b'["x", true,  null]', [*HEADERS, ("content-type", b"application/json")])
    assert event.data == b'["x", true,  null]'
    assert event.payload == ["x", True, None]
    assert event.attributes == {
        "specversion": "1.0", "id": "1", "source": "/s", "type": "t", "datacontenttype": "application/json",
    }  # fmt: skip


@pytest.mark.parametrize(
    "content_type",
    [b"application/cloudevents+json", b"Application/CloudEvents+JSON; charset=UTF-8"],
    ids=["R1-plain", "R1-upper-case"],
)
def test_a_structured_record_is_read_from_its_value_though_it_has_ce_headers(content_type: bytes) -> None:
    headers = [("ce_id", b"other"), ("ce_type", b"other"), ("content-type", content_type)]
    event = decode(None, structured(subject="x"), headers)
    assert (event.id, event.type, event.subject) == ("1", "t", "x")


# {what is refused: (value, headers, what the error says)}
REFUSED = {
    "R3-a-batch": (
        b"[]", [("content-type", b"application/cloudevents-batch+json")], "one record for each event"),
    "R1-a-format-other-than-json": (
        b"", [("content-type", b"application/cloudevents+avro")], r"avro.*not supported"),
    "structured-without-value": (None, STRUCTURED, "no value"),
    "structured-without-id": (
        b'{"specversion":"1.0","source":"/s","type":"t"}', STRUCTURED, "attribute id is missing"),
    "a-plain-record": (b'{"a":1}', None, "not a CloudEvent"),
    "another-specversion": (b"", [("ce_specversion", b"0.3"), *HEADERS[1:]], r"'0\.3': only '1\.0'"),
}  # fmt: skip


@pytest.mark.parametrize(("value", "headers", "problem"), REFUSED.values(), ids=REFUSED)
def test_a_record_of_another_form_is_refused_with_a_sentence(value: Any, headers: Any, problem: str) -> None:
    with pytest.raises(EventError, match=problem):
        decode(None, value, headers)


def test_the_record_key_adds_nothing_to_the_event() -> None:
    """R4"""
    assert decode(b"a", b"", HEADERS) == decode(None, b"", HEADERS)
    assert decode(b"a", structured(), STRUCTURED).partitionkey is None


def test_every_missing_attribute_is_named() -> None:
    with pytest.raises(EventError) as caught:
        decode(None, b"{}", [("ce_type", b"t")])
    assert caught.value.problems == (
        "attribute specversion is missing", "attribute id is missing", "attribute source is missing",
    )  # fmt: skip


def test_a_null_header_is_an_absent_attribute() -> None:
    """R5"""
    assert decode(None, None, [*HEADERS, ("ce_subject", None)]).subject is None
    assert decode(None, structured(subject=None), STRUCTURED).subject is None


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (("ce_subject", b"\xff"), "not UTF-8"),
        (("content-type", b"\xff"), "not UTF-8"),
        (("ce_id", b"2"), "twice"),
        (("ce_datacontenttype", b"text/plain"), "use content-type"),
        (("ce_Subject", b"x"), "not allowed"),
        (("ce_my-ext", b"x"), "not allowed"),
        (("ce_data", b"x"), "not allowed"),
        (("ce_", b"x"), "not allowed"),
        (("ce_subject", b""), "empty"),
        (("ce_subject", b"a\nb"), "control"),
        (("ce_time", b"yesterday"), "RFC 3339"),
        (("ce_time", b"2026-11-20T06:00:00"), "RFC 3339"),
        (("ce_time", b"2026-02-30T06:00:00Z"), "RFC 3339"),
        (("ce_time", b"2026-11-20T24:00:00Z"), "RFC 3339"),
    ],
)
def test_a_bad_header_is_refused_by_name(header: tuple[str, bytes], problem: str) -> None:
    """R6, R7"""
    with pytest.raises(EventError, match=problem):
        decode(None, b"", [*HEADERS, header])


@pytest.mark.parametrize(
    "time", ["2026-11-20T06:00:00Z", "2026-11-20t06:00:00.123456789+05:30", "2016-12-31T23:59:60Z"]
)
def test_an_rfc_3339_time_is_kept_unchanged(time: str) -> None:
    assert decode(None, None, [*HEADERS, ("ce_time", time.encode())]).attributes["time"] == time


def test_structured_json_data_keeps_its_bytes() -> None:
    """R8"""
    value = structured()[:-1] + b',"data": {"n" : 1.10, "big":12345678901234567890123} }'
    event = decode(None, value, STRUCTURED)
    assert event.data == b'{"n" : 1.10, "big":12345678901234567890123}'
    assert event.attributes["datacontenttype"] == "application/json"


@pytest.mark.parametrize(
    ("members", "data"),
    [
        ({}, None),
        ({"data": None}, b"null"),
        ({"data": "x"}, b'"x"'),
        ({"data": "x", "datacontenttype": "text/plain"}, b"x"),
        ({"data": "<a/>", "datacontenttype": "application/xml"}, b"<a/>"),
        ({"data": "x", "datacontenttype": "application/vnd.a+json;v=1"}, b'"x"'),
        ({"data_base64": "/w==", "datacontenttype": "application/octet-stream"}, b"\xff"),
    ],
)
def test_structured_data_is_read_by_its_content_type(members: dict[str, object], data: bytes | None) -> None:
    """R8, R9, R10"""
    assert decode(None, structured(**members), STRUCTURED).data == data


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"data": 1, "data_base64": "/w=="}, "both"),
        ({"data_base64": "?"}, "base64"),
        ({"data_base64": 1}, "base64"),
        ({"data": {}, "datacontenttype": "text/plain"}, "not a string"),
        ({"level": 1.5}, "attribute level is a float"),
        ({"level": 2**31}, "32-bit"),
        ({"subject": 1}, "attribute subject is a int"),
        ({"nested": {}}, "attribute nested is a dict"),
    ],
)
def test_a_structured_record_with_a_bad_member_is_refused(members: dict[str, object], problem: str) -> None:
    with pytest.raises(EventError, match=problem):
        decode(None, structured(**members), STRUCTURED)


def test_structured_booleans_and_integers_become_canonical_strings() -> None:
    event = decode(None, structured(urgent=True, level=-3), STRUCTURED)
    assert (event.attributes["urgent"], event.attributes["level"]) == ("true", "-3")


def test_no_data_is_a_null_value_and_stays_none() -> None:
    event = Event.of("t", "/s", id="1")
    key, value, headers = encode(event)
    assert value is None
    assert decode(key, value, headers) == event


@pytest.mark.parametrize(
    ("attributes", "key"),
    [({}, b"/s"), ({"subject": "x"}, b"x"), ({"subject": "x", "partitionkey": "p"}, b"p")],
)
def test_the_record_key_is_partitionkey_else_subject_else_source(
    attributes: dict[str, str], key: bytes
) -> None:
    assert encode(Event.of("t", "/s", **attributes))[0] == key  # type: ignore[arg-type]


text = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn")), min_size=1, max_size=20)


sources = st.from_regex(r"(?:[a-z]{1,5}:)?(?:/[A-Za-z0-9._~-]{0,5}){1,3}", fullmatch=True)


@given(text, sources, text, st.none() | text, st.none() | st.binary(max_size=50), st.none() | text)
def test_what_is_written_is_read_back(
    id_: str, source: str, type_: str, subject: str | None, data: bytes | None, tenant: str | None
) -> None:
    event = Event.of(type_, source, id=id_, subject=subject, data=data, tenant=tenant)
    assert decode(*encode(event)) == event


names = st.sampled_from(
    ["ce_id", "ce_source", "ce_type", "ce_specversion", "ce_time", "content-type", "ce_x", "x"]
) | st.text(max_size=6)
values = (
    st.sampled_from([b"1.0", b"application/cloudevents+json", b"application/cloudevents", b"text/plain"])
    | st.binary(max_size=30)
    | st.none()
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
members = st.dictionaries(
    st.sampled_from(["id", "source", "type", "specversion", "time", "data", "data_base64", "datacontenttype"])
    | st.text(max_size=4),
    st.just("1.0") | json_values,
)


@settings(max_examples=400)
@given(st.none() | st.binary(), st.lists(st.tuples(names, values)))
def test_any_record_gives_an_event_or_an_event_error(
    value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    """R11"""
    with contextlib.suppress(EventError):
        event = decode(value, value, headers)
        event.to_json_dict()
        _ = event.payload


@settings(max_examples=400)
@given(st.binary(max_size=60) | members.map(lambda obj: json.dumps(obj).encode()))
def test_any_structured_value_gives_an_event_or_an_event_error(value: bytes) -> None:
    """R11"""
    with contextlib.suppress(EventError):
        decode(None, value, STRUCTURED)


@pytest.mark.parametrize(
    "value", [b"[" * 100_000, b'{"data":' + b"[" * 100_000, b'{"id":"\\ud800"}', b"\xef\xbb\xbf{}"]
)
def test_hostile_json_gives_an_event_error(value: bytes) -> None:
    """R11"""
    with pytest.raises(EventError):
        decode(None, value, STRUCTURED)
