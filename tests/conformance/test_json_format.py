"""CloudEvents JSON event format 1.0.2."""

from __future__ import annotations

import json
from typing import Any

import pytest
from interlock.events import Event, EventError

SPECIFICATION = "https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md"
REQUIRED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def read(**members: Any) -> Event:
    return Event.from_json_bytes(json.dumps({**REQUIRED, **members}).encode())


@pytest.mark.section("2.2", "booleans and integers of extensions are JSON booleans and numbers")
def test_extensions_keep_their_json_types() -> None:
    form = {**REQUIRED, "yes": True, "no": False, "n": -5, "text": "5"}
    event = Event.from_json_dict(form)
    assert event.attributes["yes"] == "true"
    for back in (event.to_json_dict(), json.loads(event.to_json_bytes())):
        assert back == form
        assert [type(back[name]) for name in ("yes", "no", "n", "text")] == [bool, bool, int, str]


@pytest.mark.section("2.2", "an extension that `Event.of` got as a boolean or integer is one in JSON")
def test_extensions_of_a_new_event_have_json_types() -> None:
    form = Event.of("t", "/s", id="1", yes=True, n=5).to_json_dict()
    assert (form["yes"], form["n"]) == (True, 5)


@pytest.mark.section("2.2", "a number with a fraction, a list or an object is no attribute")
@pytest.mark.parametrize("value", [1.5, [1], {"a": 1}])
def test_values_outside_the_type_system_are_refused(value: object) -> None:
    with pytest.raises(EventError, match="attribute x"):
        read(x=value)


@pytest.mark.section("2.2", "null means that the attribute is absent")
def test_a_null_attribute_is_absent() -> None:
    assert "subject" not in read(subject=None).attributes
    with pytest.raises(EventError, match="id is missing"):
        read(id=None)


@pytest.mark.section("3", "a JSON object; a member that appears twice is refused (RFC 8259, section 4)")
@pytest.mark.parametrize(
    "text",
    [
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","id":"2"}',
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","\\u0069d":"1"}',
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"data":2}',
    ],
    ids=["id", "escaped", "data"],
)
def test_repeated_members_are_refused(text: bytes) -> None:
    with pytest.raises(EventError, match="twice"):
        Event.from_json_bytes(text)


@pytest.mark.section("3", "data stays as it was sent: its members may repeat, and numbers keep their form")
def test_json_data_keeps_its_bytes() -> None:
    text = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":1.50,"a":' + b"9" * 30 + b"}}"
    event = Event.from_json_bytes(text)
    assert event.data == b'{"a":1.50,"a":' + b"9" * 30 + b"}"
    assert event.data in event.to_json_bytes()


@pytest.mark.section("3", "anything but an object is refused")
@pytest.mark.parametrize("text", [b"[]", b'"x"', b"1", b"null", b"", b"{", b"\xff", b"[" * 100_000])
def test_json_that_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(EventError):
        Event.from_json_bytes(text)


@pytest.mark.section("3.1", "`data` and `data_base64` together are refused")
def test_data_in_two_forms_is_refused() -> None:
    with pytest.raises(EventError, match="both"):
        read(data=1, data_base64="AA==")


@pytest.mark.section("3.1.1", "data of a JSON type is written as JSON")
@pytest.mark.parametrize("media_type", ["application/json", "text/json", "application/vnd.orders+json; v=1"])
def test_json_data_is_written_as_json(media_type: str) -> None:
    form = Event.of("t", "/s", data={"a": [1, None]}, datacontenttype=media_type).to_json_dict()
    assert form["data"] == {"a": [1, None]}


@pytest.mark.section("3.1.1", "text is written as a string, other bytes as `data_base64`")
def test_text_is_a_string_and_bytes_are_base64() -> None:
    assert Event.of("t", "/s", data="<a/>", datacontenttype="text/xml").to_json_dict()["data"] == "<a/>"
    assert (
        Event.of("t", "/s", data=b"\x00", datacontenttype="image/png").to_json_dict()["data_base64"] == "AA=="
    )


@pytest.mark.section("3.1.2", "`data` without a datacontenttype is application/json")
def test_data_without_a_type_is_json() -> None:
    event = read(data={"a": 1})
    assert (event.datacontenttype, event.payload) == ("application/json", {"a": 1})


@pytest.mark.section(
    "3.1.2", "`data_base64` without a datacontenttype stays bytes, and is written as such again"
)
@pytest.mark.parametrize(("text", "data"), [("e30=", b"{}"), ("AQID", b"\x01\x02\x03"), ("", b"")])
def test_base64_without_a_type_stays_bytes(text: str, data: bytes) -> None:
    event = read(data_base64=text)
    assert (event.data, event.datacontenttype) == (data, None)
    assert event.to_json_dict()["data_base64"] == text
    assert Event.from_json_dict(event.to_json_dict()) == event


@pytest.mark.section("3.1.2", "`data_base64` of a JSON type is the JSON text")
def test_base64_of_a_json_type_is_json() -> None:
    assert read(data_base64="eyJhIjoxfQ==", datacontenttype="application/json").payload == {"a": 1}


@pytest.mark.section("3.1.2", "`data_base64` that is not base64 is refused")
@pytest.mark.parametrize("text", ["AA=", "ä", 5, ["AA=="]])
def test_wrong_base64_is_refused(text: object) -> None:
    with pytest.raises(EventError, match="data_base64"):
        read(data_base64=text)


@pytest.mark.section("3.1.2", "`data` of a type that is not JSON is a string")
def test_data_of_another_type_must_be_a_string() -> None:
    assert read(data="<a/>", datacontenttype="text/xml").data == b"<a/>"
    with pytest.raises(EventError, match="not a string"):
        read(data={"a": 1}, datacontenttype="text/xml")
