"""CloudEvents core specification 1.0.2."""

from __future__ import annotations

from typing import Any

import pytest
from interlock.events import Event, EventError

SPECIFICATION = "https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md"


def event(**given: Any) -> Event:
    return Event.from_json_dict({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **given})


@pytest.mark.section("Naming conventions", "names consist of a-z and 0-9, and are not `data`")
@pytest.mark.parametrize("name", ["Tenant", "tenant_id", "tenant-id", "ténant", ""])
def test_attribute_names_with_other_characters_are_refused(name: str) -> None:
    with pytest.raises(EventError, match="attribute name"):
        event(**{name: "x"})


@pytest.mark.section("Type system", "an Integer is a whole number of 32 bits")
@pytest.mark.parametrize("number", [2**31, -(2**31) - 1])
def test_integers_beyond_32_bits_are_refused(number: int) -> None:
    assert event(n=2**31 - 1).attributes["n"] == "2147483647"
    with pytest.raises(EventError, match="32-bit"):
        event(n=number)


@pytest.mark.section("Type system", "a String has no control characters, surrogates or noncharacters")
@pytest.mark.parametrize("text", ["a\nb", "\x7f", "\ud800", "\ufdd0", "\U0001ffff"])
def test_texts_with_forbidden_characters_are_refused(text: str) -> None:
    with pytest.raises(EventError, match="control or non-Unicode"):
        event(subject=text)


@pytest.mark.section("Required attributes", "id, source, specversion and type are there and not empty")
@pytest.mark.parametrize("name", ["id", "source", "specversion", "type"])
@pytest.mark.parametrize("value", [None, ""])
def test_required_attributes_are_required(name: str, value: str | None) -> None:
    with pytest.raises(EventError, match=name):
        event(**{name: value})


@pytest.mark.section("source", "a URI reference of RFC 3986")
@pytest.mark.parametrize("source", ["my jobs", "größe", "1a:b", "a#b#c", "[x]", "%zz", "http://a b/"])
def test_a_source_that_is_no_uri_reference_is_refused(source: str) -> None:
    with pytest.raises(EventError, match="attribute source"):
        event(source=source)


@pytest.mark.section("source", "a URI, a relative reference, or a name")
@pytest.mark.parametrize(
    "source",
    [
        "https://github.com/cloudevents",
        "mailto:events@example.com",
        "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
        "/cloudevents/spec/pull/123",
        "/sensors/tn-1234567/alerts",
        "1-555-123-4567",
        "http://[2001:db8::7]:8080/c=GB?objectClass?one#x",
        "/gr%C3%B6%C3%9Fe",
    ],
)
def test_a_source_may_have_any_form_of_uri_references(source: str) -> None:
    assert event(source=source).source == source


@pytest.mark.section("dataschema", "an absolute URI of RFC 3986, if present")
@pytest.mark.parametrize("schema", ["/schemas/orders", "orders v1", ""])
def test_a_dataschema_that_is_no_uri_is_refused(schema: str) -> None:
    assert event(dataschema="urn:orders:v1").attributes["dataschema"] == "urn:orders:v1"
    with pytest.raises(EventError, match="attribute dataschema"):
        event(dataschema=schema)


@pytest.mark.section("datacontenttype", "a media type of RFC 2046, if present")
@pytest.mark.parametrize("media_type", ["json", "text", "text/", "a/b c", "a/b; x"])
def test_a_datacontenttype_that_is_no_media_type_is_refused(media_type: str) -> None:
    with pytest.raises(EventError, match="attribute datacontenttype"):
        event(datacontenttype=media_type)


@pytest.mark.section("datacontenttype", "parameters are allowed, also in quotes")
@pytest.mark.parametrize("media_type", ["text/xml", "text/plain; charset=utf-8", 'a/b;x="a;\\"b"', "a/b ;"])
def test_media_types_may_have_parameters(media_type: str) -> None:
    assert event(datacontenttype=media_type).datacontenttype == media_type


@pytest.mark.section("subject", "not empty, if present")
def test_an_empty_subject_is_refused() -> None:
    with pytest.raises(EventError, match="subject"):
        event(subject="")


@pytest.mark.section("time", "RFC 3339, if present")
@pytest.mark.parametrize("time", ["yesterday", "2026-11-20", "2026-02-30T00:00:00Z", "2026-11-20T06:00:00"])
def test_a_time_that_is_no_timestamp_is_refused(time: str) -> None:
    assert event(time="2026-11-20T06:00:00.123456789+01:00").attributes["time"].endswith("789+01:00")
    with pytest.raises(EventError, match="attribute time"):
        event(time=time)


@pytest.mark.section("Extension context attributes", "any, with a value of the type system")
def test_extensions_are_kept() -> None:
    assert event(tenant="bank", empty="", n=-5, yes=True).attributes == {
        **event().attributes, "tenant": "bank", "empty": "", "n": "-5", "yes": "true"
    }  # fmt: skip


@pytest.mark.section("Event data", "bytes without a datacontenttype are no error")
@pytest.mark.parametrize("data", [b"\xff\x00", b"{", b"text"])
def test_bytes_without_a_content_type_are_the_payload(data: bytes) -> None:
    assert Event.of("t", "/s", data=data).payload == data
