"""What counts as a reply of a sink, and the record that is made of it."""

from __future__ import annotations

import msgspec
import pytest
from interlock.engine.bus import Output
from interlock.engine.delivery.answers import Verdict
from interlock.engine.sending.content import Sendable
from interlock.engine.sending.replies import ReplyError, is_reply, read_reply
from interlock.events.event import Event
from interlock.events.kafka import decode

SENT = Sendable([], b"", 5, {"traceparent": "00-a", "tracestate": "x=y"})
BINARY = [
    (b"Ce-SpecVersion", b"1.0"), (b"ce-id", b"r1"), (b"ce-source", b"/sink"), (b"ce-type", b"done"),
    (b"Content-Type", b"application/json"),
]  # fmt: skip
JSON = [(b"content-type", b"application/cloudevents+json; charset=utf-8")]
EVENT = {"specversion": "1.0", "id": "r1", "source": "/sink", "type": "done", "data": {"n": 1}}


def read(headers: list[tuple[bytes, bytes]], body: bytes = b'{"n":1}', sent: Sendable = SENT) -> Output:
    return read_reply(headers, body, sent, "b-event")


def record_of(reply: Output) -> Event:
    return decode(reply.key, reply.value, reply.headers)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (BINARY, b'{"n":1}'),
        (JSON, msgspec.json.encode(EVENT)),
        ([*BINARY, (b"Content-Encoding", b"")], b'{"n":1}'),
    ],
    ids=["binary", "structured", "no encoding"],
)
def test_a_reply_is_a_record_of_the_event_topic(headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    assert is_reply(headers)
    found = read(headers, body)
    event = record_of(found)
    assert (found.topic, found.partition, found.key) == ("b-event", None, b"/sink")
    assert (event.identity, event.payload) == (("/sink", "r1"), {"n": 1})


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"content-type", b"application/json")],
        [(b"content-type", b"text/html")],
        [(b"x-ce-id", b"1")],
        [(b"date", b"now"), (b"traceparent", b"00-a")],
    ],
)
def test_other_answers_are_no_replies(headers: list[tuple[bytes, bytes]]) -> None:
    assert not is_reply(headers)


def test_a_reply_gets_one_hop_less_whatever_it_says() -> None:
    for stated in ([], [(b"ce-interlockhops", b"31")]):
        event = record_of(read(BINARY + stated))
        assert event.attributes["interlockhops"] == "4"


def test_a_reply_belongs_to_the_trace_unless_it_names_one() -> None:
    assert record_of(read(BINARY)).attributes["traceparent"] == "00-a"
    own = record_of(read([*BINARY, (b"ce-traceparent", b"00-b")])).attributes
    assert (own["traceparent"], "tracestate" in own) == ("00-b", False)


def test_what_a_sink_copied_of_the_request_is_left_out() -> None:
    copied = [
        (b"ce-interlocksequence", b"7"),
        (b"ce-interlockfiring", b"f"),
        (b"ce-interlockproof", b"1.a.b"),
    ]
    names = record_of(read(BINARY + copied)).attributes.keys()
    assert not names & {"interlocksequence", "interlockfiring", "interlockproof"}


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([(b"ce-id", b"1")], b""),
        ([*BINARY, (b"ce-id", b"r2")], b""),
        ([*BINARY[1:], (b"ce-specversion", b"0.3")], b""),
        ([*BINARY, (b"ce-subject", b"%C0%A0")], b""),
        (JSON, b""),
        (JSON, b"no"),
        (JSON, b"[]"),
        (JSON, msgspec.json.encode({**EVENT, "source": ""})),
        (JSON, b'{"specversion":"1.0","id":"a","id":"b","source":"s","type":"t"}'),
        ([(b"content-type", b"application/cloudevents+avro")], b""),
        ([(b"content-type", b"application/cloudevents-batch+json")], b"[]"),
        ([(b"content-type", b"application/cloudevents-batch+json")], msgspec.json.encode([EVENT, EVENT])),
        ([*JSON, (b"content-encoding", b"gzip")], msgspec.json.encode(EVENT)),
        (BINARY, b"x" * 1024 * 1024),
    ],
)
def test_a_malformed_reply_is_tried_again(headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    assert is_reply(headers)
    with pytest.raises(ReplyError) as caught:
        read(headers, body)
    assert caught.value.verdict is Verdict.RETRY


@pytest.mark.parametrize("stated", [b"interlock.airflow.dag_run.succeeded", b"org.apache.kafka.record"])
def test_a_sink_cannot_give_interlocks_own_types(stated: bytes) -> None:
    with pytest.raises(ReplyError, match="only Interlock gives") as caught:
        read([(b"ce-type", stated) if name == b"ce-type" else (name, value) for name, value in BINARY])
    assert caught.value.verdict is Verdict.REFUSED


def test_a_reply_that_closes_too_long_a_chain_is_refused() -> None:
    last = read(BINARY, sent=SENT._replace(hops=1))
    assert record_of(last).attributes["interlockhops"] == "0"
    with pytest.raises(ReplyError, match="looks like a loop") as caught:
        read(BINARY, sent=SENT._replace(hops=0))
    assert caught.value.verdict is Verdict.REFUSED
