"""`Event`: its arguments, its payload, its JSON form and the SDK's type."""

from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st
from interlock.events import Event, EventError
from interlock.events.attributes import find_problems, is_timestamp, is_uri_reference, parse_timestamp


def test_every_bad_argument_is_named_at_once() -> None:
    with pytest.raises(EventError) as caught:
        Event.of("", "/s", id="1", time="soon", data=float("nan"), Level="x", tenant=1.5)
    message = "; ".join(caught.value.problems)
    for name in ("type", "time", "data", "'Level'", "tenant"):
        assert name in message
    assert len(caught.value.problems) == 5


def test_extensions_are_kept_as_canonical_strings() -> None:
    event = Event.of("t", "/s", urgent=True, level=-7, raw=b"\xff", due=datetime(2026, 1, 2, tzinfo=UTC))
    assert {name: event.attributes[name] for name in ("urgent", "level", "raw", "due")} == {
        "urgent": "true", "level": "-7", "raw": "/w==", "due": "2026-01-02T00:00:00Z",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["cls", "self", "given", "payload", "extensions"])
def test_an_extension_may_have_any_valid_name(name: str) -> None:
    """`cls` was an error of Python's."""
    assert Event.of("t", "/s", **{name: "x"}).attributes[name] == "x"


@pytest.mark.parametrize("version", ["0.3", "1", "", 1, float("nan")])
def test_another_version_of_cloudevents_is_refused(version: object) -> None:
    """It was ignored."""
    with pytest.raises(EventError, match="specversion"):
        Event.of("t", "/s", specversion=version)
    assert Event.of("t", "/s", specversion="1.0").attributes["specversion"] == "1.0"


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(EventError, match="time zone"):
        Event.of("t", "/s", time=datetime(2026, 1, 2))  # noqa: DTZ001


def test_the_id_is_random_by_default_and_no_time_is_added() -> None:
    first, second = Event.of("t", "/s"), Event.of("t", "/s")
    assert first.id != second.id
    assert first.time is None


def test_time_is_utc_whatever_its_zone() -> None:
    event = Event.of("t", "/s", time="2026-11-20T01:30:00.1234567+01:00")
    assert event.time == datetime(2026, 11, 20, 0, 30, 0, 123456, tzinfo=UTC)


@given(st.datetimes(timezones=st.timezones()))
def test_any_aware_datetime_is_a_valid_time(value: datetime) -> None:
    try:
        expected = value.astimezone(UTC)
    except OverflowError:
        return
    assert Event.of("t", "/s", time=value).time == expected


@given(
    st.text("0123456789-:TZ+.tz ", max_size=30) | st.datetimes().map(lambda value: value.isoformat() + "Z")
)
def test_parse_timestamp_raises_only_value_error(text: str) -> None:
    if is_timestamp(text):
        try:
            parse_timestamp(text)
        except ValueError:
            assert text.startswith(("0000", "0001", "9999"))
    else:
        with pytest.raises(ValueError, match=r"RFC 3339|day is out of range"):
            parse_timestamp(text)


@pytest.mark.parametrize(
    ("data", "content_type", "payload"),
    [
        (None, None, None),
        (b"", "application/json", None),
        (b'{"a":1}', None, {"a": 1}),
        (b"{", None, b"{"),
        (b"[" * 100_000, None, b"[" * 100_000),
        (b'{"a":1}', "text/JSON; charset=utf-8", {"a": 1}),
        (b"[1]", "application/vnd.x+json", [1]),
        (b"caf\xe9", "text/plain; charset=latin-1", "café"),
        (b"{", "application/octet-stream", b"{"),
    ],
)
def test_the_payload_follows_the_content_type(
    data: bytes | None, content_type: str | None, payload: object
) -> None:
    assert Event.of("t", "/s", data=data, datacontenttype=content_type).payload == payload


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (b"{", "application/json"),
        (b"\xff", "text/plain"),
        (b"x", "text/plain; charset=nonsense"),
        (b"[" * 100_000, "application/json"),
    ],
    ids=["json", "text", "charset", "deep"],
)
def test_data_that_does_not_match_its_type_is_an_event_error(data: bytes, content_type: str | None) -> None:
    event = Event.of("t", "/s", data=data, datacontenttype=content_type)
    with pytest.raises(EventError, match="data is"):
        _ = event.payload
    assert "data_base64" in event.to_json_dict()


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), inner)
    ),
    max_leaves=10,
)


@given(json_values.filter(lambda value: value is not None) | st.binary(), st.none() | st.just("text/plain"))
def test_the_json_form_reads_back_to_the_same_event(data: object, content_type: str | None) -> None:
    if content_type and not isinstance(data, (bytes, str)):
        return
    event = Event.of("t", "/s", id="1", subject="x", data=data, datacontenttype=content_type)
    form = json.loads(json.dumps(event.to_json_dict()))
    back = Event.from_json_dict(form)
    stated = {"datacontenttype": "application/json"} if "data" in form else {}  # R8
    assert back.to_json_dict() == {**stated, **form}
    assert back.identity == event.identity
    try:
        assert back.payload == event.payload
    except EventError:
        assert back.data == event.data


@given(st.none() | json_values)
def test_invalid_json_events_raise_only_event_error(value: object) -> None:
    with pytest.raises(EventError):
        Event.from_json_dict(value)


def test_an_event_survives_msgpack_inside_other_records() -> None:
    event = Event.of("t", "/s", data={"a": 1})
    assert msgspec.msgpack.decode(msgspec.msgpack.encode([event]), type=list[Event]) == [event]
    _ = event.payload  # the parsed payload is not part of the record
    assert msgspec.msgpack.decode(msgspec.msgpack.encode([event]), type=list[Event]) == [event]


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Event.of("t", "/s").data = b"x"  # type: ignore[misc]


@pytest.mark.parametrize("data", [None, {"a": [True, None]}, b'["x"]', b"null", b"", b"\xff"])
def test_the_sdk_event_carries_the_same_event_there_and_back(data: object) -> None:
    event = Event.of(
        "t", "/s", id="1", subject="x", tenant="bank", data=data, datacontenttype="application/json"
    )
    sdk_event = event.to_cloudevent()
    assert isinstance(sdk_event, CloudEvent)
    assert sdk_event.get_time() is None
    assert Event.from_cloudevent(sdk_event) == event


def test_the_sdk_event_keeps_time_and_text() -> None:
    time = datetime(2026, 11, 20, 6, tzinfo=timezone(timedelta(hours=1)))
    event = Event.of("t", "/s", time=time, data="hé", datacontenttype="text/plain")
    sdk_event = event.to_cloudevent()
    assert sdk_event.get_data() == "hé"
    assert sdk_event.get_time() == time
    assert Event.from_cloudevent(sdk_event) == event


def test_an_sdk_event_of_another_version_is_refused() -> None:
    sdk_event = CloudEvent({"type": "t", "source": "/s"})
    sdk_event.get_attributes()["specversion"] = "0.3"
    with pytest.raises(EventError, match="specversion"):
        Event.from_cloudevent(sdk_event)


@pytest.mark.parametrize(
    ("name", "advice"), [("source", "give it a value"), ("subject", "leave it out or give it a value")]
)
def test_an_empty_attribute_that_is_required_cannot_be_left_out(name: str, advice: str) -> None:
    attributes = {"specversion": "1.0", "id": "1", "source": "/a", "type": "t", name: ""}
    assert find_problems(attributes) == [f"attribute {name} is empty: {advice}"]


@pytest.mark.parametrize("end", ["\u00a0", "\u200b", "\u3000", "\U0001fae9"])
@pytest.mark.parametrize("name", ["source", "dataschema", "datacontenttype"])
def test_an_invisible_character_in_a_uri_or_media_type_is_refused_like_any_other_letter(
    name: str, end: str
) -> None:
    """Copied with a no-break space, a source was accepted, and then equal to no other."""
    usual = {"source": "/orders", "dataschema": "urn:a", "datacontenttype": "text/plain"}
    attributes = {"specversion": "1.0", "id": "1", "type": "t", "source": "/s", name: usual[name] + end}
    [problem] = find_problems(attributes)
    assert problem.startswith(f"attribute {name} is '{usual[name]}")


@pytest.mark.parametrize(
    "source",
    ["/" + "a" * 100_000, "x:" + "a" * 100_000, "//" + "a" * 100_000, "/a" * 50_000, "/" + "%41" * 33_000,
     "?" + "a" * 100_000, "#" + "a/" * 50_000],
    ids=["path", "uri", "host", "segments", "escapes", "query", "fragment"],
)  # fmt: skip
@pytest.mark.parametrize("end", ["", " "], ids=["valid", "invalid"])
def test_a_long_source_is_checked_without_memory_for_each_character(source: str, end: str) -> None:
    text = source + end
    tracemalloc.start()
    try:
        assert is_uri_reference(text) is (not end)
        assert tracemalloc.get_traced_memory()[1] < len(text)
    finally:
        tracemalloc.stop()
