"""A usual event is read the short way once its source was seen, so each is read before and after that."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from interlock import Event, EventError
from interlock.events import http, kafka
from interlock.events.content import MOST_LEVELS
from interlock.events.usual import are_usual, of_batch, of_http, of_json

_sources = itertools.count()
NAMES = ("specversion", "id", "type", "subject", "time", "datacontenttype", "sequence", "custom")
TIME, JSON = "2026-11-20T06:00:00Z", "application/json"
VALUES = ("1.0", "com.example.a", TIME, JSON, "text/plain", "", 'a "b"', "\x07", "é")
DATA = ('{"a": "b"}', "null", '"text"', "[1,", '{"a":1,"a":2}', "NaN", '"\\ud800"')
TEXTS = st.sampled_from(VALUES)


def outcome(read: Callable[[], Event]) -> Any:
    try:
        return shown(read())
    except EventError as error:
        return error.problems


def shown(event: Event) -> Any:
    return dict(event.attributes), event.data, event.to_json_dict()


def both(read: Callable[[str], Event]) -> None:
    """Reads an event of a new source, then again when the source is known."""
    source = f"/usual/{next(_sources)}"
    first = outcome(lambda: read(source))
    Event.of("t", source)
    assert outcome(lambda: read(source)) == first


usual_members = st.fixed_dictionaries(
    {"specversion": st.just("1.0"), "id": st.just("1"), "type": st.just("t")},
    optional={"time": st.just(TIME), "datacontenttype": st.just(JSON), "subject": TEXTS},
)
odd_members = st.lists(
    st.tuples(
        st.sampled_from([*NAMES, "data", "data_base64"]),
        TEXTS | st.sampled_from([None, True, 5, {"a": 1}, ["x"], "eA=="]),
    ),
    max_size=2,
)


@given(
    usual_members,
    odd_members,
    st.none() | st.sampled_from(DATA),
    st.sampled_from([(",", ":"), (", ", ": ")]),
    st.booleans(),
)
def test_json_has_the_same_event_or_fault_as_when_it_is_read_closely(
    usual: dict[str, str],
    odd: list[tuple[str, Any]],
    raw: str | None,
    marks: tuple[str, str],
    is_escaped: bool,
) -> None:
    def read(source: str) -> Event:
        pairs = [*usual.items(), ("source", source), *odd]
        members = [f"{json.dumps(name)}{marks[1]}{json.dumps(value)}" for name, value in pairs]
        if raw is not None:
            members.append(f'"data"{marks[1]}{raw}')
        text = "{" + marks[0].join(members) + "}"
        return Event.from_json_bytes((text.replace('"id"', '"\\u0069d"') if is_escaped else text).encode())

    both(read)


odd_headers = st.lists(
    st.tuples(
        st.sampled_from([*(f"ce-{name}" for name in NAMES), "content-type", "traceparent", "host"]),
        TEXTS | st.sampled_from(["%C3%A9", "%zz", '"quoted"', "application/cloudevents+json"]),
    ),
    max_size=3,
)


PLAIN = {"specversion": "1.0", "id": "1", "type": "t"}


@given(usual_members, odd_headers, st.sampled_from([b"", b"{}"]))
@example(PLAIN, [("ce-subject", "%C3%A9")], b"")
@example(PLAIN, [("ce-subject", '"quoted"')], b"")
@example(PLAIN, [("ce-subject", "\xc3\xa9")], b"")  # UTF-8
@example(PLAIN, [("traceparent", "00-a-b-01")], b"")
def test_http_headers_have_the_same_event_or_fault_as_when_they_are_read_closely(
    usual: dict[str, str], odd: list[tuple[str, str]], body: bytes
) -> None:
    def read(source: str) -> Event:
        pairs = [*((f"ce-{name}", text) for name, text in usual.items()), ("ce-source", source), *odd]
        return http.decode([(name.encode(), text.encode("latin-1")) for name, text in pairs], body)[0]

    both(read)


@given(usual_members, odd_headers)
def test_a_record_has_the_same_event_or_fault_as_when_it_is_read_closely(
    usual: dict[str, str], odd: list[tuple[str, str]]
) -> None:
    def read(source: str) -> Event:
        pairs = [
            *usual.items(),
            ("source", source),
            *((name.removeprefix("ce-"), text) for name, text in odd),
        ]
        return kafka.decode(None, b"{}", [(f"ce_{name}", text.encode()) for name, text in pairs])

    both(read)


KNOWN = "/usual/known"


def either_way(read: Callable[[], Event]) -> None:
    """Reads an event of a known source as usual, then without the short ways."""
    Event.of("t", KNOWN)
    found = outcome(read)
    with (
        patch("interlock.events.event.of_json", return_value=None),
        patch("interlock.events.http.of_batch", return_value=None),
        patch("interlock.events.http.of_http", return_value=None),
        patch("interlock.events.kafka._usual", return_value=None),
    ):
        assert outcome(read) == found


def changed(text: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    for at, length, piece in changes:
        at %= len(text) + 1
        text = text[:at] + piece + text[at + length :]
    return text


PIECES = [
    b'"', b"\\", b'\\"', b"\\u0022", b"\\ud800", b"\\/", b"{", b"}", b"[", b"]", b",", b":", b" ", b"\t",
    b"\x00", b"\x0b", b"\xc3\xa9", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8",
    b"\xef\xbf\xbf", b"null", b"true", b"NaN", b"-0", b"1e999", b"1.0", b"01", b"9" * 5000, b',"id":"2"',
    b',"data":1', b'"data"', b'"id"', b',"data_base64":"eA=="', b',"subject":""', b',"subject":null',
    b',"sequence":5', b',"x":{"y":[]}', b"[" * 600, b'{"a":' * 600, b"[" * 600 + b"]" * 600, b"%C3%A9",
    b"%zz", b"%", b"application/json", b"text/plain", b";charset=utf-8",
]  # fmt: skip
changes = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 8), st.sampled_from(PIECES) | st.binary(max_size=4)),
    max_size=3,
)
MEMBERS = json.dumps(
    {"specversion": "1.0", "id": "1", "source": KNOWN, "type": "t", "subject": "s", "time": TIME}
).encode()[:-1]


@given(st.sampled_from([b"", *(b',"data":' + each.encode() for each in DATA)]), changes)
@settings(max_examples=150)
@example(b',"data":1', [])
@example(b',"data":"\xff"', [])
def test_any_json_has_the_same_event_or_fault_either_way(
    data: bytes, changed_at: list[tuple[int, int, bytes]]
) -> None:
    text = changed(MEMBERS + data + b"}", changed_at)
    either_way(lambda: Event.from_json_bytes(text))


BATCH = [(b"content-type", http.JSON_BATCH.encode())]


def batch_outcome(text: bytes) -> Any:
    try:
        return [shown(each) for each in http.decode(BATCH, text, most_events=4)]
    except EventError as error:
        return type(error), error.problems


@given(st.lists(st.sampled_from([b"", *(b',"data":' + each.encode() for each in DATA)]), max_size=5), changes)
@settings(max_examples=150)
@example([b"", b',"data":1,"data":2', b""], [])
@example([b"", b',"sequence":"\x7f"'], [])
@example([b"", b',"sequence":"\xc2\x85"'], [])
@example([b"", b',"sequence":"\\u0007"'], [])
@example([b',"datacontenttype":"text/plain","data":"a"', b""], [])
@example([b""] * 5, [])
def test_any_batch_has_the_same_events_or_faults_either_way(
    more: list[bytes], changed_at: list[tuple[int, int, bytes]]
) -> None:
    text = changed(b"[" + b",".join(MEMBERS + each + b"}" for each in more) + b"]", changed_at)
    Event.of("t", KNOWN)
    found = batch_outcome(text)
    with (
        patch("interlock.events.event.of_json", return_value=None),
        patch("interlock.events.http.of_batch", return_value=None),
    ):
        assert batch_outcome(text) == found


@pytest.mark.parametrize("form", ["[%s]", '{"a":%s}'], ids=["lists", "objects"])
def test_json_in_any_number_of_levels_is_read_or_refused_either_way(form: str) -> None:
    around, inside = form.split("%s")[0], form.split("%s")[1]
    read = []
    for levels in (MOST_LEVELS - 1, MOST_LEVELS, MOST_LEVELS + 1, *range(700, 1000, 3)):
        data = around * levels + "1" + inside * levels
        text = MEMBERS + b',"data":' + data.encode() + b"}"
        either_way(lambda text=text: Event.from_json_bytes(text))  # type: ignore[misc]
        read += [levels] * isinstance(outcome(lambda text=text: Event.from_json_bytes(text))[0], dict)  # type: ignore[misc]
    assert read[-1] == MOST_LEVELS


headers = st.lists(
    st.tuples(
        st.sampled_from([*(f"ce-{name}" for name in NAMES), "ce-", "content-type", "traceparent", "ce_id"])
        | st.text("ce-_idCE", max_size=6),
        st.sampled_from(PIECES) | st.sampled_from([each.encode() for each in VALUES]) | st.binary(max_size=6),
    ),
    max_size=3,
)
BINARY = [(f"ce-{name}", value.encode()) for name, value in {**PLAIN, "source": KNOWN}.items()]


@given(headers, st.integers(0, len(BINARY)), st.sampled_from([b"", b"{}", b"[" * 600]))
@settings(max_examples=100)
def test_any_headers_have_the_same_event_or_fault_either_way(
    more: list[tuple[str, bytes]], left: int, body: bytes
) -> None:
    sent = BINARY[:left] + more + BINARY[left:]
    either_way(lambda: http.decode([(name.encode(), value) for name, value in sent], body)[0])
    record = [(name.replace("ce-", "ce_", 1), value) for name, value in sent]
    either_way(lambda: kafka.decode(None, body, record))


def test_a_usual_event_is_read_the_short_way() -> None:
    usual = Event.of("t", "/usual", id="1", subject="s", data={"a": "b"})
    headers, body = http.encode(usual)
    sent = [(name.encode(), text.encode()) for name, text in headers]
    assert of_http(sent) == usual.attributes
    assert of_json(usual.to_json_bytes()) == (usual.attributes, body)
    texts = b",".join([usual.to_json_bytes()] * 2)
    assert of_batch(b"[" + texts + b"]") == [(usual.attributes, body)] * 2
    assert are_usual(usual.attributes)


@pytest.mark.parametrize("text", [b"[]", b"{", b"\xff", b'{"id":1}', b"[" * 100_000])
def test_what_is_no_event_is_left_to_the_close_reading(text: bytes) -> None:
    assert of_json(text) is None
    assert of_batch(b"[" + text + b"]") is None
