"""What Airflow's triggers fire, read as messages, and the events of messages."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest
from interlock import Event
from interlock.engine.errors import ConfigError
from interlock.events.errors import EventError
from interlock.triggers.relay_messages import EventMaker, Message, messages_of

HERE = __name__
SQS = {"MessageId": "m1", "ReceiptHandle": "r", "Body": '{"order": 1}', "Attributes": {"SenderId": "s"}}
PUBSUB = {
    "ack_id": "a",
    "delivery_attempt": 0,
    "message": {
        "data": base64.b64encode(b'{"order": 1}').decode(),
        "attributes": {"kind": "new"},
        "message_id": "77",
        "ordering_key": "",
    },
}
KINESIS = {
    "ShardId": "shard-0", "SequenceNumber": "495", "PartitionKey": "p",
    "ApproximateArrivalTimestamp": None, "Data": base64.b64encode(b"\xff\x00").decode(),
}  # fmt: skip
REDIS = {"type": "message", "pattern": None, "channel": "orders", "data": "hello"}


def a_maker(**texts: Any) -> EventMaker:
    given = {"type": "t", "source": "/s", "subject": None, "id": None, "function": None}
    return EventMaker(**{**given, **texts})


def event_of(message: Message | EventError, **texts: Any) -> Event:
    assert isinstance(message, Message)
    [event] = a_maker(**texts).events_of(message)
    return event


@pytest.mark.parametrize(
    ("payload", "body", "id_"),
    [
        ("hello", b"hello", None),
        (b"\xff", b"\xff", None),
        ({"order": 1, "at": [2]}, b'{"at":[2],"order":1}', None),
        ([1, 2], b"[1,2]", None),
        (None, b"null", None),
        ({"status": "success", "message_batch": [SQS]}, b'{"order": 1}', "m1"),
        ({"status": "success", "message": [PUBSUB]}, b'{"order": 1}', "77"),
        ({"status": "success", "message_batch": [KINESIS]}, b"\xff\x00", "shard-0/495"),
        (REDIS, b"hello", None),
        (REDIS | {"data": b"\xff"}, b"\xff", None),
        ({"message": "hello", "queue": "q"}, b"hello", None),
        ({"message": "hello", "topic": "t", "subscription": "s"}, b"hello", None),
        ({"message": "hello", "kind": "own"}, b'{"kind":"own","message":"hello"}', None),
        ({"message_batch": [{"own": 1}]}, b'{"message_batch":[{"own":1}]}', None),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_each_triggers_payload_gives_a_body_and_an_id(payload: Any, body: bytes, id_: str | None) -> None:
    [message] = messages_of(payload)
    assert (message.body, message.id) == (body, id_)


def test_a_batch_is_as_many_messages() -> None:
    batch = [SQS, SQS | {"MessageId": "m2"}]
    assert [each.id for each in messages_of({"status": "success", "message_batch": batch})] == ["m1", "m2"]


@pytest.mark.parametrize(
    "payload",
    [
        {"status": "success", "message": [{"message": {"data": "no base64!"}}]},
        {"status": "success", "message_batch": [KINESIS | {"Data": 5}]},
        {"set": object()},
        "\ud800",
    ],
    ids=["base64", "number", "object", "surrogate"],
)
def test_a_payload_that_cannot_be_read_is_an_error_without_its_content(payload: Any) -> None:
    [error] = messages_of(payload)
    assert isinstance(error, EventError)
    assert re.search(r"cannot be read as a message( shard-0/495)?: [A-Za-z]+$", str(error))


@pytest.mark.parametrize(
    ("payload", "where"),
    [
        (float("nan"), "nan at payload"),
        ({"rate": float("inf"), "at": None}, "inf at payload.rate"),
        ([None, {"rates": (1.5, float("-inf"))}], r"-inf at payload\[1\].rates\[1\]"),
        ({"message_batch": [SQS | {"Body": {"x": float("nan")}}]}, "nan at payload.x"),
    ],
    ids=["alone", "member", "nested", "batch"],
)
def test_nan_and_infinity_are_refused_with_their_place(payload: Any, where: str) -> None:
    """They would be null, another value."""
    [error] = messages_of(payload)
    assert isinstance(error, EventError)
    assert re.search(f"fired has {where}, which JSON does not have: let it fire null", str(error))


def test_text_that_holds_nan_is_kept_as_text() -> None:
    [message] = messages_of('{"rate": NaN}')
    event = event_of(message)
    assert (event.data, event.datacontenttype, message.data) == (b'{"rate": NaN}', "text/plain", None)


@pytest.mark.parametrize(
    ("body", "type_"),
    [
        (b'{"a": 1}', "application/json"),
        (b"42", "application/json"),
        (b"null", "application/json"),
        (b"hello", "text/plain"),
        (b"", "text/plain"),
        (b"\xff\x00", "application/octet-stream"),
        (b"[" * 500 + b"]" * 500, "application/json"),
        (b"[" * 501 + b"]" * 501, "text/plain"),
    ],
    ids=["object", "number", "null", "text", "empty", "bytes", "levels", "too many levels"],
)
def test_the_body_is_the_data_unchanged_with_its_type(body: bytes, type_: str) -> None:
    event = event_of(Message(body))
    assert (event.data, event.datacontenttype) == (body, type_)


def test_attributes_come_from_the_body_and_from_what_the_trigger_says() -> None:
    [message] = messages_of({"message": [PUBSUB]})
    event = event_of(
        message,
        type="com.shop.{message.attributes.kind}",
        source="/shop/{data.order}",
        subject="{data.order}-{message.message_id}",
        id="{message.message_id}",
    )
    found = (event.type, event.source, event.subject, event.id)
    assert found == ("com.shop.new", "/shop/1", "1-77", "77")


@pytest.mark.parametrize(
    ("shop", "encoded"),
    [
        ("a b", "a%20b"),
        ("a%20b", "a%20b"),
        ("100%", "100%25"),
        ("%zz%4", "%25zz%254"),
        ("a#b#c", "a#b%23c"),
        ("[ä]\\", "%5B%C3%A4%5D%5C"),
    ],
)
def test_a_source_is_encoded_as_a_uri(shop: str, encoded: str) -> None:
    message = Message(json.dumps({"shop": shop}).encode())
    assert event_of(message, source="/{data.shop}").source == f"/{encoded}"


def test_a_subject_whose_placeholder_has_no_value_is_absent() -> None:
    assert event_of(Message(b"{}"), subject="{data.order}").subject is None


@pytest.mark.parametrize("name", ["type", "source", "id"])
def test_a_message_without_a_value_for_type_source_or_id_is_refused(name: str) -> None:
    with pytest.raises(EventError, match=rf"it has no {name}, which comes from \{{data\.a\}}"):
        event_of(Message(b"text"), **{name: "{data.a}"})


def test_a_message_cannot_forge_a_type_of_interlock() -> None:
    with pytest.raises(EventError, match=r"'interlock\.dag_run\.success', which is Interlock's own"):
        event_of(Message(b'{"type": "interlock.dag_run.success"}'), type="{data.type}")
    with pytest.raises(EventError, match="Interlock's own"):
        event_of(Message(b"interlock.x"), type=None, source=None, function=f"{HERE}.typed_by_the_message")


def test_a_repeat_has_the_same_id_and_another_message_another() -> None:
    one = Message(b"a", {"ApproximateReceiveCount": "1"}, "m1")
    again, other_id = Message(b"a", {"ApproximateReceiveCount": "2"}, "m1"), Message(b"a", {}, "m2")
    other_body, no_id = Message(b"b", {}, "m1"), Message(b"a")
    ids = [event_of(each).id for each in (one, again, other_id, other_body, no_id)]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 4


def typed_by_the_message(message: Message) -> Event:
    return Event.of(message.text, "/own", id="1")


def several(message: Message) -> list[Event]:
    return [Event.of("a", "/own", id=f"{each}", data=each) for each in message.data]


def nothing(message: Message) -> None:
    return None


def fails(message: Message) -> Event:
    raise KeyError(message.fields["no"])


def text(message: Message) -> Any:
    return [message.text]


def test_a_function_makes_one_event_several_or_none() -> None:
    def made(name: str, body: bytes) -> list[Event]:
        return a_maker(type=None, source=None, function=f"{HERE}.{name}").events_of(Message(body))

    assert [each.type for each in made("typed_by_the_message", b"com.shop.order")] == ["com.shop.order"]
    assert [each.data for each in made("several", b"[1, 2]")] == [b"1", b"2"]
    assert made("nothing", b"") == []


@pytest.mark.parametrize(
    ("name", "error", "sentence"),
    [
        ("fails", EventError, r"fails raised KeyError"),
        ("text", EventError, r"text returned list: return an Event, a list or None"),
        ("unknown", ConfigError, r"unknown cannot be imported: AttributeError"),
        ("SQS", ConfigError, r"SQS is not a function"),
    ],
)
def test_a_function_that_is_wrong_is_an_error_that_names_it(
    name: str, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        a_maker(type=None, source=None, function=f"{HERE}.{name}").events_of(Message(b"x"))
