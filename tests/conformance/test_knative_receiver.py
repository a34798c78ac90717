"""Knative Eventing data plane contract: events to the receiver."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from interlock.engine.errors import UnreachableError
from interlock.events import kafka
from interlock.receiver import connection
from interlock.receiver.app import Receiver, RequestLimits
from interlock.receiver.cloudevents import CloudEvents
from interlock.receiver.credentials import Credentials
from interlock.receiver.credentials_document import Credential, Document

from tests.unit.receiver.asking import BINARY, Answered, Bus, ask
from tests.unit.receiver.test_connection import UPGRADE, Peer, run

SPECIFICATION = "https://github.com/knative/specs/blob/main/specs/eventing/data-plane.md"
ACKNOWLEDGEMENT = "Event Acknowledgement and Delivery Retry"
BROKER = "control plane, Broker"
INGRESS = "Knative's broker"  # what its receiver does, and no specification asks
FORM = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
STRUCTURED = (b"content-type", b"application/cloudevents+json")
TOKEN_SHA256 = "1c8bfe8f801d79745c4631d09fff36c82aa37fc4cce4fc946683d7b336b63032"
TRACE = (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
Headers = list[tuple[bytes, bytes]]


def made(bus: Bus | None, types: Sequence[str] | None = None, **limits: int) -> Receiver:
    """A receiver; with `types` it takes only those, and only with a token."""
    document = (
        None
        if types is None
        else Document([Credential(name="shop", types=tuple(types), token_sha256=TOKEN_SHA256)])
    )
    receiver = Receiver({"/events": CloudEvents(Credentials(document))}, RequestLimits(**limits))
    receiver.writer = bus
    return receiver


def posted(headers: Headers, body: bytes = b"", error: Exception | None = None) -> tuple[Answered, Bus]:
    bus = Bus(error)
    return asyncio.run(ask(made(bus), headers, body)), bus


@pytest.mark.section("Minimum supported protocol", "an event is taken in binary and in structured mode")
def test_events_are_taken_in_both_modes() -> None:
    for headers, body in ((BINARY, b""), ([STRUCTURED], json.dumps(FORM).encode())):
        answer, bus = posted(headers, body)
        assert answer.status == 202
        assert [dict(event.attributes) for event in bus.events] == [FORM]


@pytest.mark.section(
    "HTTP Verbs", "events come with POST; another method, and a probe with OPTIONS, gets Allow"
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
def test_only_post_is_taken(method: str) -> None:
    answer = asyncio.run(ask(made(Bus()), method=method))
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.section(ACKNOWLEDGEMENT, "an unparsable event gets 400")
@pytest.mark.parametrize(
    ("headers", "body"),
    [(BINARY[1:], b""), ([STRUCTURED], b"{"), ([*BINARY, (b"ce-time", b"now")], b""), ([], b"{}")],
)
def test_an_unparsable_event_gets_400(headers: Headers, body: bytes) -> None:
    answer, bus = posted(headers, body)
    assert (answer.status, bus.events) == (400, [])


@pytest.mark.section(f"{ACKNOWLEDGEMENT}; {BROKER}", "an event is accepted only when it is stored durably")
def test_an_event_is_accepted_when_the_bus_has_it() -> None:
    async def check() -> None:
        bus = Bus()
        bus.may_write.clear()
        asked = asyncio.ensure_future(ask(made(bus)))
        done, _ = await asyncio.wait([asked], timeout=0)
        assert not done
        bus.may_write.set()
        assert (await asked).status == 202

    asyncio.run(check())
    answer, _ = posted(BINARY, error=UnreachableError("away"))
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")


@pytest.mark.section(ACKNOWLEDGEMENT, "a duplicate is accepted, and has the same source and id")
def test_duplicates_are_accepted() -> None:
    async def check() -> None:
        bus = Bus()
        receiver = made(bus)
        assert [(await ask(receiver)).status for _ in range(2)] == [202, 202]
        assert {event.identity for event in bus.events} == {("/s", "1")}

    asyncio.run(check())


@pytest.mark.section(
    ACKNOWLEDGEMENT, "401 without valid authentication, 403 for an event that is not allowed"
)
def test_a_sender_needs_a_right() -> None:
    def status(types: Sequence[str], token: bytes | None) -> int:
        more = [] if token is None else [(b"authorization", b"Bearer " + token)]
        return asyncio.run(ask(made(Bus(), types), [*BINARY, *more])).status

    assert [status(["t"], token) for token in (None, b"wrong", b"letmein")] == [401, 401, 202]
    assert status(["other"], b"letmein") == 403


@pytest.mark.section(ACKNOWLEDGEMENT, "429 with Retry-After at the bound of requests in memory")
def test_an_overloaded_receiver_says_when_to_come_again() -> None:
    answer = asyncio.run(ask(made(Bus(), held_bytes=10)))
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")


@pytest.mark.section(BROKER, "attributes, specversion and data reach the bus unchanged")
@pytest.mark.parametrize(
    ("headers", "body", "data"),
    [
        ([*BINARY, (b"content-type", b"text/plain; charset=latin-1")], b"\xe9\x00", b"\xe9\x00"),
        ([*BINARY, (b"content-type", b"application/json")], b'{"a": 1.50, "a": 2}', b'{"a": 1.50, "a": 2}'),
        ([STRUCTURED], json.dumps(FORM).encode()[:-1] + b', "data": {"n": 1.10}}', b'{"n": 1.10}'),
    ],
    ids=["text", "JSON", "structured"],
)
def test_an_event_is_not_changed(headers: Headers, body: bytes, data: bytes) -> None:
    _, bus = posted([*headers, (b"ce-subject", b"%C3%A4")], body)
    [event] = bus.events
    stored = kafka.decode(*kafka.encode(event))
    kind = dict(headers).get(b"content-type", b"").decode()
    is_structured = (b"content-type", kind.encode()) == STRUCTURED
    more = {} if is_structured else {"subject": "ä"}
    kind = "application/json" if is_structured else kind
    assert stored.attributes == {**FORM, **more, "datacontenttype": kind}
    assert stored.data == data


@pytest.mark.section("Observability", "the trace of the request is kept")
def test_the_trace_is_kept() -> None:
    _, bus = posted([*BINARY, TRACE])
    assert bus.events[0].attributes["traceparent"] == TRACE[1].decode()


@pytest.mark.section(INGRESS, "a body may have 1 MiB; a larger one gets 413 before it is read")
def test_the_largest_body_is_one_mebibyte() -> None:
    assert posted(BINARY, b"x" * 1024 * 1024)[0].status == 202
    assert posted(BINARY, b"x" * (1024 * 1024 + 1))[0].status == 413
    assert posted([*BINARY, (b"content-length", b"1048577")])[0].status == 413


@pytest.mark.section(INGRESS, "/healthz and /readyz are probes; what starts or shuts down is not ready")
def test_probes_are_answered() -> None:
    def statuses(bus: Bus | None) -> list[int]:
        return [
            asyncio.run(ask(made(bus), [], path=path, method="GET")).status
            for path in ("/healthz", "/readyz")
        ]

    assert statuses(Bus()) == [200, 200]
    assert statuses(None) == [200, 503]
    assert asyncio.run(ask(made(None))).status == 503


@pytest.mark.section(INGRESS, "headers, and a body, that are incomplete after 10 s end the request")
def test_a_slow_request_ends() -> None:
    async def check(peer: Peer) -> None:
        await peer.send(UPGRADE[:-1])
        await peer.transport.closed.wait()
        assert peer.statuses == [408]

    assert (RequestLimits().body_s, connection.SLOW_PEER_S) == (10, 10)
    run(check, body_s=0.0)


@pytest.mark.section("Background", "a header Upgrade is ignored: the request is read as any other")
def test_an_upgrade_is_ignored() -> None:
    async def check(peer: Peer) -> None:
        await peer.send(UPGRADE)
        assert peer.statuses == [202]
        assert [event.data for event in peer.bus.events] == [b"{}"]

    run(check)
