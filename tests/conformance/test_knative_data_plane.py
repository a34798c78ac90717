"""Knative Eventing data plane contract: deliveries to sinks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from interlock.engine.delivery.answers import Verdict
from interlock.engine.delivery.posts import Ended
from interlock.events.event import Event
from interlock.events.http import decode
from interlock.events.kafka import decode as decode_record

from tests.kit.posting import Posting, form
from tests.kit.sinks import Received, Sink, answer, reset
from tests.unit.engine.delivery.firings import firing

SPECIFICATION = "https://github.com/knative/specs/blob/main/specs/eventing/data-plane.md"
RETRIES = "Event Acknowledgement and Delivery Retry"
DELIVERED, RETRY, REFUSED, DENIED = Verdict.DELIVERED, Verdict.RETRY, Verdict.REFUSED, Verdict.DENIED
REPLY = {"ce-specversion": "1.0", "ce-id": "r1", "ce-source": "/sink", "ce-type": "done"}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as made:
        yield made


def delivered(sink: Sink, attributes: Mapping[str, object] | None = None, **members: Any) -> Ended:
    """An event is delivered."""
    made = firing(7, events={"order": [form({"n": 1}, **(attributes or {}))]})
    with Posting.to(sink.url) as posting:
        return posting.deliver(made, send="event", **members)


def event_in(received: Received) -> Event:
    headers = [(name.encode(), text.encode()) for name, text in received.headers.items()]
    (found,) = decode(headers, received.body)
    return found


@pytest.mark.section("Minimum supported protocol", "an event is sent in binary or in structured mode")
@pytest.mark.parametrize("mode", ["binary", "json"])
def test_events_are_sent_in_both_modes(sink: Sink, mode: str) -> None:
    delivered(sink, {"subject": "ö 1"}, format=mode)
    (got,) = sink.received
    event = event_in(got)
    assert (event.identity, event.type, event.subject) == (("/orders", "e1"), "com.example.ordered", "ö 1")
    assert event.payload == {"n": 1}
    assert got.headers["content-type"] == {
        "binary": "application/json", "json": "application/cloudevents+json"
    }[mode]  # fmt: skip


@pytest.mark.section("HTTP Verbs", "events are delivered with POST, without a probe")
def test_events_are_posted(sink: Sink) -> None:
    delivered(sink)
    assert [got.method for got in sink.received] == ["POST"]


@pytest.mark.section(RETRIES, "the status decides whether to try again")
@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (101, REFUSED), (200, DELIVERED), (201, DELIVERED), (202, DELIVERED), (204, DELIVERED),
        (299, DELIVERED), (300, REFUSED), (304, REFUSED), (307, REFUSED), (400, REFUSED), (401, DENIED),
        (403, DENIED), (404, RETRY), (405, REFUSED), (406, REFUSED), (407, DENIED), (408, RETRY),
        (409, RETRY), (410, DENIED), (413, REFUSED), (415, REFUSED), (422, REFUSED), (425, REFUSED),
        (429, RETRY), (431, REFUSED), (499, REFUSED), (500, RETRY), (501, RETRY), (502, RETRY), (503, RETRY),
        (504, RETRY), (599, RETRY), (600, RETRY), (999, RETRY),
    ],
)  # fmt: skip
def test_the_status_decides(sink: Sink, status: int, verdict: Verdict) -> None:
    sink.answer(answer(status))
    found = delivered(sink).answer
    assert (found.status, found.verdict) == (status, verdict)


@pytest.mark.section(RETRIES, "without an answer the event is sent again")
def test_a_delivery_without_an_answer_is_tried_again(sink: Sink) -> None:
    sink.answer(reset())
    assert delivered(sink).answer.verdict is RETRY


@pytest.mark.section(RETRIES, "429 and 503 may say when: Retry-After is read")
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_read(sink: Sink, status: int) -> None:
    sink.answer(answer(status, {"retry-after": "120"}))
    found = delivered(sink).answer
    assert (found.retry_after_s, found.is_congestion) == (120.0, True)


@pytest.mark.section(RETRIES, "an event that is sent again has the same identity")
def test_a_repeat_has_the_same_identity(sink: Sink) -> None:
    sink.answer(answer(503), answer(202))
    for _ in range(2):
        delivered(sink)
    first, second = (event_in(got) for got in sink.received)
    assert first == second


@pytest.mark.section(
    "Observability", "traceparent and tracestate are kept, and are headers of the request too"
)
def test_the_trace_is_kept(sink: Sink) -> None:
    delivered(sink, {"traceparent": TRACE, "tracestate": "a=b"})
    (got,) = sink.received
    assert {name: got.headers[name] for name in ("traceparent", "tracestate")} == {
        "traceparent": TRACE, "tracestate": "a=b"
    }  # fmt: skip
    assert (got.attributes["traceparent"], got.attributes["tracestate"]) == (TRACE, "a=b")


@pytest.mark.section("Derived (Reply) Events", "the header `Prefer: reply` asks for replies")
def test_replies_are_asked_for(sink: Sink) -> None:
    delivered(sink)
    assert sink.received[0].headers["prefer"] == "reply"


@pytest.mark.section("Derived (Reply) Events", "a 200 may hold an event, in binary or structured mode")
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_a_reply_becomes_an_event(sink: Sink, mode: str) -> None:
    body = {name.removeprefix("ce-"): text for name, text in REPLY.items()} | {"data": {"m": 2}}
    sink.answer(
        answer(200, REPLY | {"content-type": "application/json"}, b'{"m":2}')
        if mode == "binary"
        else answer(200, {"content-type": "application/cloudevents+json"}, json.dumps(body).encode())
    )
    ended = delivered(sink)
    assert ended.answer.verdict is DELIVERED
    assert ended.reply is not None
    written = ended.reply
    event = decode_record(written.key, written.value, written.headers)
    assert (ended.reply.topic, event.identity, event.payload) == ("b-event", ("/sink", "r1"), {"m": 2})


@pytest.mark.section("Derived (Reply) Events", "a 200 without an event is accepted, with or without a body")
@pytest.mark.parametrize("body", [b"", b'{"ok": true}'])
def test_a_200_needs_no_reply(sink: Sink, body: bytes) -> None:
    sink.answer(answer(200, {"content-type": "application/json"}, body))
    ended = delivered(sink)
    assert (ended.answer.verdict, ended.reply) == (DELIVERED, None)


@pytest.mark.section("Derived (Reply) Events", "a 202, or another 2xx, never holds a reply")
@pytest.mark.parametrize("status", [201, 202, 203])
def test_other_statuses_hold_no_reply(sink: Sink, status: int) -> None:
    sink.answer(answer(status, REPLY))
    ended = delivered(sink)
    assert (ended.answer.verdict, ended.reply) == (DELIVERED, None)


@pytest.mark.section("Derived (Reply) Events", "a reply that is no valid event fails the delivery")
@pytest.mark.parametrize(
    "reply",
    [
        answer(200, {**REPLY, "ce-specversion": "9"}),
        answer(200, {"content-type": "application/cloudevents+json"}, b"no"),
        answer(200, {"content-type": "application/cloudevents+json"}, b"x" * 1_100_000),
        answer(200, {"content-type": "application/cloudevents+avro"}, b"x"),
    ],
    ids=["another version", "no JSON", "too large", "another format"],
)
def test_a_malformed_reply_fails_the_delivery(sink: Sink, reply: Any) -> None:
    sink.answer(reply)
    ended = delivered(sink)
    assert (ended.answer.verdict, ended.reply) == (RETRY, None)
    assert "its reply " in str(ended.answer)


@pytest.mark.section("Derived (Reply) Events", "replies cannot go round for ever: 32 may follow one another")
def test_a_loop_of_replies_ends(sink: Sink) -> None:
    sink.answer(answer(200, REPLY))
    attributes: dict[str, object] = {}
    for _ in range(32):
        reply = delivered(sink, attributes).reply
        assert reply is not None
        hops = decode_record(reply.key, reply.value, reply.headers).attributes["interlockhops"]
        attributes = {"interlockhops": hops}
    ended = delivered(sink, attributes)
    assert (ended.answer.verdict, ended.reply) == (REFUSED, None)
    assert all("interlockhops" not in got.attributes for got in sink.received)
