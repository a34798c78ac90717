"""CloudEvents HTTP protocol binding 1.0.2."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock.events import Event, EventError
from interlock.events.http import MediaTypeError, decode, encode

SPECIFICATION = (
    "https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md"
)
REQUIRED = [(b"ce-specversion", b"1.0"), (b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t")]
FORM = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
STRUCTURED = (b"content-type", b"application/cloudevents+json; charset=utf-8")
BATCH = (b"content-type", b"application/cloudevents-batch+json")


def one(headers: list[tuple[bytes, bytes]], body: bytes = b"") -> Event:
    [event] = decode(headers, body)
    return event


def sent(event: Event) -> Event:
    headers, body = encode(event)
    return one([(name.encode(), value.encode("ascii")) for name, value in headers], body)


@pytest.mark.section("3", "content-type decides the mode; `ce-` headers of a structured request are ignored")
def test_a_structured_request_with_ce_headers_is_structured() -> None:
    assert one([STRUCTURED, *REQUIRED, (b"ce-id", b"2")], json.dumps({**FORM, "id": "3"}).encode()).id == "3"


@pytest.mark.section("3.1.1", "content-type is the datacontenttype; `ce-datacontenttype` must not be there")
def test_the_content_type_is_a_header_of_its_own() -> None:
    assert one([*REQUIRED, (b"content-type", b"text/xml")], b"<a/>").datacontenttype == "text/xml"
    with pytest.raises(EventError, match="ce-datacontenttype"):
        decode([*REQUIRED, (b"ce-datacontenttype", b"text/xml")], b"<a/>")
    for datacontenttype in ("application/json; charset=utf-8", 'multipart/mixed; boundary="a b%20"'):
        event = Event.of("t", "/s", id="1", data=b"x", datacontenttype=datacontenttype)
        assert dict(encode(event)[0])["content-type"] == datacontenttype
        assert sent(event) == event
    event = Event.of("t", "/s", id="1", data=b"x", datacontenttype='text/plain; by="a é"')
    assert dict(encode(event)[0])["content-type"] == 'text/plain; by="a %C3%A9"'


@pytest.mark.section("3.1.2", "the body is the data, byte for byte; an empty one is no data")
@pytest.mark.parametrize(
    ("body", "data"), [(b"\xff\x00", b"\xff\x00"), (b'{"a": 1.50}', b'{"a": 1.50}'), (b"", None)]
)
def test_the_data_is_not_changed(body: bytes, data: bytes | None) -> None:
    assert one(list(REQUIRED), body).data == data


@pytest.mark.section("3.1.3", "other headers are ignored; an attribute that appears twice is refused")
def test_other_headers_are_ignored_and_repeated_ones_refused() -> None:
    assert one([*REQUIRED, (b"host", b"x"), (b"cex", b"y")]).attributes == FORM
    with pytest.raises(EventError, match="twice"):
        decode([*REQUIRED, (b"ce-id", b"2")], b"")
    with pytest.raises(EventError, match="twice"):
        decode([*REQUIRED, (b"content-type", b"a/b"), (b"content-type", b"a/b")], b"")


@pytest.mark.section("3.1.3.1", "an attribute's name follows the core's rules")
def test_an_attribute_header_with_a_forbidden_name_is_refused() -> None:
    with pytest.raises(EventError, match="attribute name"):
        decode([*REQUIRED, (b"ce-tenant-id", b"x")], b"")


@pytest.mark.section("3.1.3.2", "values are percent-decoded once; hex digits may be in upper or lower case")
@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"Euro%20%E2%82%AC%20%f0%9f%98%80", "Euro € 😀"),
        (b"%2541", "%41"),
        (b"50%", "50%"),
        (b"a+b", "a+b"),
    ],
)
def test_values_are_percent_decoded(raw: bytes, text: str) -> None:
    assert one([*REQUIRED, (b"ce-subject", raw)]).subject == text


@pytest.mark.section("3.1.3.2", "double-quoted values of older senders are read")
@pytest.mark.parametrize(
    ("raw", "text"), [(b'"a b"', "a b"), (rb'"a \"b\" \\c"', 'a "b" \\c'), (b'"%41"', "A")]
)
def test_quoted_values_are_unquoted(raw: bytes, text: str) -> None:
    assert one([*REQUIRED, (b"ce-subject", raw)]).subject == text


@pytest.mark.section(
    "3.1.3.2", "what is not UTF-8 after decoding is refused, and so is what is not ASCII before"
)
@pytest.mark.parametrize("raw", [b"%C0%A0", b"%ff", b"%ED%A0%80", b"caf\xe9", "é".encode(), b"%41\xff"])
def test_values_that_are_not_utf8_are_refused(raw: bytes) -> None:
    with pytest.raises(EventError, match="%XX"):
        decode([*REQUIRED, (b"ce-subject", raw)], b"")


@pytest.mark.section(
    "3.1.3.2", "space, double quote, percent sign and all outside printable ASCII are encoded"
)
def test_values_are_percent_encoded() -> None:
    headers, _ = encode(Event.of("t", "/s", id="1", subject='a "b" 50% é😀~!'))
    assert dict(headers)["ce-subject"] == "a%20%22b%22%2050%25%20%C3%A9%F0%9F%98%80~!"


@pytest.mark.section("3.2", "a structured request is the event in JSON, in UTF-8")
def test_structured_requests_are_json() -> None:
    event = one([STRUCTURED], json.dumps({**FORM, "n": 5, "data": {"a": 1}}).encode())
    assert (event.attributes["n"], event.payload) == ("5", {"a": 1})
    with pytest.raises(MediaTypeError, match="utf-16"):
        decode([(b"content-type", b"application/cloudevents+json; charset=utf-16")], b"{}")


@pytest.mark.section("3.2.1", "another event format is refused")
@pytest.mark.parametrize(
    "media_type",
    [b"application/cloudevents+avro", b"application/cloudevents", b"Application/CloudEvents-batch+xml"],
)
def test_other_formats_are_refused(media_type: bytes) -> None:
    with pytest.raises(MediaTypeError, match="not supported"):
        decode([(b"content-type", media_type), *REQUIRED], b"")


@pytest.mark.section("3.3", "a batch is a JSON array of events, and may be empty")
def test_batches_are_arrays() -> None:
    body = json.dumps([{**FORM, "id": str(number)} for number in range(3)]).encode()
    assert [event.id for event in decode([BATCH], body)] == ["0", "1", "2"]
    assert decode([BATCH], b"[]") == []


@pytest.mark.section("3.3", "a batch with a wrong event is refused, and the event is named")
@pytest.mark.parametrize("body", [b"{}", b"[1", b"", json.dumps([FORM, {**FORM, "type": ""}]).encode()])
def test_a_wrong_batch_is_refused_whole(body: bytes) -> None:
    with pytest.raises(EventError, match=r"batch|event 2 of 2: attribute type"):
        decode([BATCH], body)


PARENT, STATE = (b"traceparent", b"00-1-2-01"), (b"tracestate", b"a=b")


@pytest.mark.section(
    "Distributed tracing extension",
    "an event without a trace gets traceparent and tracestate of the request, in each mode",
)
@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (REQUIRED, b""),
        ([STRUCTURED], json.dumps(FORM).encode()),
        ([BATCH], json.dumps([FORM]).encode()),
    ],
    ids=["binary", "structured", "batch"],
)
def test_trace_headers_are_kept(headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    trace = {"traceparent": "00-1-2-01", "tracestate": "a=b"}
    assert one([*headers, PARENT, STATE], body).attributes == {**FORM, **trace}
    assert one([*headers, PARENT, STATE, (STATE[0], b"c=d")], body).attributes["tracestate"] == "a=b,c=d"
    for more in (
        [STATE],
        [PARENT, PARENT],
        [(PARENT[0], b"")],
        [(PARENT[0], b"\xff")],
        [(PARENT[0], b"0" * 513)],
    ):
        assert one([*headers, *more], body).attributes == FORM
    assert "tracestate" not in one([*headers, PARENT, (STATE[0], b"a" * 513)], body).attributes


@pytest.mark.section(
    "Distributed tracing extension", "the trace of an event is not changed by that of the request"
)
def test_an_event_keeps_its_trace() -> None:
    traced = {**FORM, "traceparent": "00-3-4-01", "flag": True}
    in_json = json.dumps(traced).encode()
    assert one([*REQUIRED, PARENT, STATE, (b"ce-traceparent", b"00-3-4-01")]).attributes == {
        **FORM, "traceparent": "00-3-4-01"
    }  # fmt: skip
    assert one([STRUCTURED, PARENT, STATE], in_json) == Event.from_json_bytes(in_json)
    flagged = one([STRUCTURED, PARENT], json.dumps({**FORM, "flag": True}).encode())
    assert flagged.to_json_dict() == {**FORM, "flag": True, "traceparent": "00-1-2-01"}


texts = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn")), min_size=1, max_size=20)


@pytest.mark.section("3", "an event that is written and read again is the same")
@given(
    texts,
    texts,
    st.none() | st.binary(min_size=1, max_size=30),
    st.none()
    | st.sampled_from(
        [
            "application/json",
            "text/plain",
            "application/cloudevents+json",
            "application/cloudevents-batch+json",
        ]
    ),
)
def test_an_event_survives_encoding(
    id_: str, subject: str, data: bytes | None, media_type: str | None
) -> None:
    event = Event.of("t", "/s", id=id_, subject=subject, data=data, datacontenttype=media_type)
    assert sent(event) == event


names = st.sampled_from(
    [b"ce-id", b"ce-source", b"ce-type", b"ce-specversion", b"content-type", b"ce-", b"traceparent"]
)
values = st.binary(max_size=12) | st.sampled_from([b"1.0", b"/s", b"%", b'"', BATCH[1], STRUCTURED[1]])


@pytest.mark.section("3", "any request is an event or an EventError")
@given(st.lists(st.tuples(names | st.binary(max_size=6), values), max_size=6), st.binary(max_size=30))
def test_any_request_gives_events_or_an_event_error(headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    try:
        for event in decode(headers, body):
            assert Event.from_json_dict(event.to_json_dict()).identity == event.identity
    except EventError:
        pass
