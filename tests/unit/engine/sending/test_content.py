"""What is sent of a firing, in each form; read as a sink reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from interlock.engine.delivery.firings import OpenFiring
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.records import FiringRecord
from interlock.engine.records.firing_form import firing_form
from interlock.engine.sending.content import MOST_HOPS, Content, Sendable
from interlock.events.event import Event
from interlock.events.http import decode

from tests.kit.posting import form
from tests.unit.engine.delivery.firings import firing


def sent(made: OpenFiring, **members: Any) -> Sendable:
    record = SinkRecord(subscription=made.subscription, connection="c", **members)
    return Content(record, made).encoded()


def event(made: Sendable) -> Event:
    """What a sink reads of it."""
    (found,) = decode([(name.encode(), text.encode()) for name, text in made.headers], made.body)
    return found


def with_events(*forms: Mapping[str, object], **members: Any) -> OpenFiring:
    return firing(7, events={"order": [*forms]}, **members)


@pytest.mark.parametrize("mode", ["binary", "json"])
@pytest.mark.parametrize(
    "members",
    [
        {"data": {"n": 1.5, "of": [None, True]}, "datacontenttype": "application/json"},
        {"data": "a text", "datacontenttype": "application/json"},
        {"data": "grüße", "datacontenttype": "text/plain; charset=utf-8"},
        {"data_base64": "AAH/", "datacontenttype": "application/octet-stream"},
        {"data": {"n": 1}, "datacontenttype": "application/vnd.example+json", "subject": "ö 1", "own": "x y"},
        {},
        {"dataref": "https://example.com/large"},
    ],
)
def test_an_event_is_sent_as_it_is(members: dict[str, object], mode: Any) -> None:
    found = event(sent(with_events(form(**members)), send="event", format=mode))
    own = {"interlocksequence": "7", "interlockfiring": "f7"}
    assert found == Event.from_json_dict({**form(), **members, **own})


def test_json_data_without_a_type_get_it() -> None:
    found = event(sent(with_events(form({"n": 1})), send="event"))
    assert (found.datacontenttype, found.data) == ("application/json", b'{"n":1}')


def test_data_of_an_event_keep_their_bytes() -> None:
    """1.10 is the same number as 1.1, but not the same amount on a bill."""
    made = with_events(form(msgspec.Raw(b'{"n": 1.10, "big": 12345678901234567890}')))
    assert sent(made, send="event").body == b'{"n": 1.10, "big": 12345678901234567890}'
    assert b'{"n": 1.10, "big": 12345678901234567890}' in sent(made).body
    assert b'"data":{"n": 1.10, "big": 12345678901234567890}' in sent(made, send="event", format="json").body


def test_typed_extensions_keep_their_types_in_json() -> None:
    made = with_events(form(flag=True, count=3))
    assert event(sent(made, send="event")).attributes["flag"] == "true"
    structured = msgspec.json.decode(sent(made, send="event", format="json").body)
    assert (structured["flag"], structured["count"]) == (True, 3)


@pytest.mark.parametrize(
    "members",
    [
        {"events": {"a": [form()], "b": [form()]}},
        {"events": {"a": [form(), form()]}},
        {"events": {"a": []}},
        {"events": {}},
        {"events": {"a": [form()], "b": []}},
    ],
)
def test_a_firing_without_exactly_one_event_is_sent_itself(members: Any) -> None:
    found = event(sent(firing(7, **members), send="event"))
    assert found.type == "interlock.firing.met"


@pytest.mark.parametrize("mode", ["binary", "json"])
@pytest.mark.parametrize(
    "events",
    [
        {"a": [form({"n": 1})], "b": [form({"n": 2}), form()]},
        {"a": [form({"n": 1}, interlockhops="3", traceparent="00-a-b-01")]},
    ],
    ids=["plain", "with marks"],
)
def test_a_firing_has_the_form_that_tasks_get(events: Any, mode: Any) -> None:
    found = event(sent(firing(7, events=events), format=mode))
    record = FiringRecord(id="f7", outcome="met", key="a", fired_at="", events=events, origins={})
    expected = msgspec.to_builtins(firing_form(record))
    for each in (each for together in expected["events"].values() for each in together):
        each.pop("interlockhops", None)
    assert (found.payload, found.id, found.subject) == (expected, "f7", "a")


@pytest.mark.parametrize("key", [None, "", "a\nb"])
def test_a_key_that_is_no_subject_is_in_the_data_alone(key: str | None) -> None:
    found = event(sent(firing(7, key)))
    assert (found.subject, found.payload["key"]) == (None, key)  # type: ignore[index]


@pytest.mark.parametrize("mode", ["binary", "json"])
def test_a_key_in_any_script_is_the_subject_that_a_sink_gets(mode: Any) -> None:
    key = "\u6771\u4eac\u3000\u652f\u5e97"  # with an ideographic space, which Python does not call printable
    assert event(sent(firing(7, key), format=mode)).subject == key


def test_hops_and_proofs_are_not_shown_to_sinks() -> None:
    made = with_events(form({"n": 1}, interlockhops="3", interlockproof="1.ab.cd"))
    for members in ({}, {"send": "event"}, {"format": "json"}, {"send": "event", "format": "json"}):
        found = sent(made, **members)
        assert b"interlockhops" not in found.body
        assert b"interlockproof" not in found.body
        assert not {"interlockhops", "interlockproof"} & event(found).attributes.keys()


@pytest.mark.parametrize(
    ("stated", "hops"),
    [
        ([], MOST_HOPS),
        (["3"], 3),
        (["5", "2", "9"], 2),
        (["0"], 0),
        ([4], 4),
        (["1000000"], MOST_HOPS),
        (["33"], MOST_HOPS),
        (["-1"], MOST_HOPS),
        (["²"], MOST_HOPS),
        (["many"], MOST_HOPS),
        ([True], MOST_HOPS),
    ],
)
def test_the_fewest_hops_of_the_events_count(stated: list[object], hops: int) -> None:
    events = [form(interlockhops=each) for each in stated]
    assert sent(firing(7, events={"a": events or [form()]})).hops == hops


def test_a_trace_is_kept() -> None:
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b"}
    other = {"traceparent": "00-11111111111111111111111111111111-b7ad6b7169203331-01"}
    assert sent(with_events(form(**trace)), send="event").trace == trace
    assert (
        event(sent(with_events(form(**trace)), send="event")).attributes["traceparent"]
        == trace["traceparent"]
    )
    one = event(sent(with_events(form(**trace), form(**trace))))
    assert {name: one.attributes[name] for name in trace} == trace
    assert sent(with_events(form(**trace), form(**other))).trace == {}
    assert sent(with_events(form(**trace), form())).trace == {}


@pytest.mark.parametrize(
    ("members", "is_one"),
    [
        ({"dataref": "kafka:b-event/0/5"}, True),
        ({"dataref": "kafka:b-event/0/6"}, False),  # a producer's own
        ({"dataref": "https://example.com/large"}, False),
        ({"dataref": "kafka:b-event/0/5", "data": 1}, False),
        ({"dataref": "kafka:b-event/0/5", "data_base64": "AA=="}, False),
        ({}, False),
    ],
)
def test_only_what_the_engine_left_out_is_resolved(members: dict[str, object], is_one: bool) -> None:
    origins = {"order": [{"topic": "b-event", "partition": 0, "offset": 5, "timestamp_ms": 0}]}
    made = with_events(form(**members), origins=origins)
    record = SinkRecord(subscription="s", connection="c")
    assert len([*Content(record, made).references()]) == is_one
