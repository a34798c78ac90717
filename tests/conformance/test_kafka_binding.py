"""CloudEvents Kafka protocol binding 1.0.2."""

from __future__ import annotations

import pytest
from interlock.events import Event, EventError
from interlock.events.kafka import decode, encode

SPECIFICATION = (
    "https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md"
)
REQUIRED = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]
STRUCTURED = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}'


@pytest.mark.section("3", "content-type decides the mode; `ce_` headers of a structured record are ignored")
@pytest.mark.parametrize(
    "media_type", [b"application/cloudevents+json", b"Application/CloudEvents+JSON; charset=utf-8"]
)
def test_a_structured_record_is_read_by_its_content_type(media_type: bytes) -> None:
    event = decode(None, STRUCTURED, [("content-type", media_type), ("ce_id", b"2")])
    assert event.id == "1"


@pytest.mark.section("3.1", "the key is partitionkey, and no key changes an event")
def test_the_key_is_the_partitionkey_and_is_not_read() -> None:
    event = Event.of("t", "/s", id="1", partitionkey="p")
    key, value, headers = encode(event)
    assert key == b"p"
    assert decode(b"another", value, headers) == event


@pytest.mark.section("3.2.1", "content-type is the datacontenttype, and there is no `ce_datacontenttype`")
def test_the_content_type_is_a_header_of_its_own() -> None:
    _, _, headers = encode(Event.of("t", "/s", data={"a": 1}))
    assert ("content-type", b"application/json") in headers
    with pytest.raises(EventError, match="ce_datacontenttype"):
        decode(None, b"{}", [*REQUIRED, ("ce_datacontenttype", b"application/json")])


@pytest.mark.section("3.2.2", "the value is the data, byte for byte; without data it is null")
@pytest.mark.parametrize("data", [None, b"", b"\xff\x00", b'{"a":1.50}'])
def test_the_data_is_not_changed(data: bytes | None) -> None:
    _, value, headers = encode(Event.of("t", "/s", data=data))
    assert value == data
    assert decode(None, value, headers).data == data


@pytest.mark.section("3.2.2", "data that is itself a CloudEvent does not become the event")
@pytest.mark.parametrize(
    "media_type",
    ["application/cloudevents+json", "application/cloudevents-batch+json", "Application/CloudEvents+avro"],
)
@pytest.mark.parametrize("data", [STRUCTURED, b"\xff"])
def test_an_event_whose_data_is_an_event_survives_encoding(media_type: str, data: bytes) -> None:
    event = Event.of("wrapped", "/outer", id="2", data=data, datacontenttype=media_type)
    assert decode(*encode(event)) == event


@pytest.mark.section("3.2.3", "each attribute is a `ce_` header in UTF-8")
def test_attributes_are_headers_in_utf8() -> None:
    event = Event.of("t", "/s", id="1", subject="größe", n=5)
    _, value, headers = encode(event)
    assert set(headers) == {*REQUIRED, ("ce_subject", "größe".encode()), ("ce_n", b"5")}
    assert decode(None, value, headers) == event
    with pytest.raises(EventError, match="not UTF-8"):
        decode(None, None, [*REQUIRED, ("ce_subject", b"\xff")])


@pytest.mark.section("3.2.3", "the same checks as in JSON: an invalid source or datacontenttype is refused")
@pytest.mark.parametrize(
    "header",
    [("ce_source", b"my jobs"), ("ce_dataschema", b"v1"), ("content-type", b"json")],
    ids=lambda header: header[0],
)
def test_attributes_of_records_are_checked(header: tuple[str, bytes]) -> None:
    headers = [each for each in REQUIRED if each[0] != header[0]]
    with pytest.raises(EventError, match="attribute"):
        decode(None, b"{}", [*headers, header])


@pytest.mark.section("3.3", "only the JSON format is read; this binding has no batches")
@pytest.mark.parametrize(
    "media_type", [b"application/cloudevents+avro", b"application/cloudevents-batch+json"]
)
def test_other_formats_are_refused(media_type: bytes) -> None:
    with pytest.raises(EventError, match="not support"):
        decode(None, b"[]", [("content-type", media_type)])
