"""The receiver's app: what it writes, what it refuses, and what it holds in memory."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from interlock.engine.errors import NoRoom, NotSent, UnreachableError
from interlock.events import Event
from interlock.receiver.app import Receiver, RequestLimits
from interlock.receiver.cloudevents import CloudEvents
from interlock.receiver.credentials import Credentials
from interlock.receiver.credentials_document import Credential, Document
from interlock.receiver.endpoint import Request
from interlock.receiver.faults import Faults

from tests.unit.receiver.asking import BATCH, BINARY, Answered, Bus, ask

TOKEN = "letmein"
DIGEST = "1c8bfe8f801d79745c4631d09fff36c82aa37fc4cce4fc946683d7b336b63032"


def receiver(bus: Bus | None, credentials: Credentials | None = None, **limits: Any) -> Receiver:
    made = Receiver({"/events": CloudEvents(credentials or Credentials())}, RequestLimits(**limits))
    made.writer = bus
    return made


def shop(**given: Any) -> Credentials:
    granted = {"types": ("com.shop.*",), **given}
    return Credentials(Document([Credential(name="shop", token_sha256=DIGEST, **granted)]), "prod")


def test_an_event_is_written_and_accepted() -> None:
    async def check() -> None:
        bus = Bus()
        answer = await ask(receiver(bus), body=[b'{"a"', b":1}"])
        assert (answer.status, answer.body) == (202, b"")
        assert bus.events == [
            Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b'{"a":1}')
        ]

    asyncio.run(check())


def test_a_body_in_chunks_is_taken() -> None:
    async def check() -> None:
        answer = await ask(receiver(Bus()), [*BINARY, (b"transfer-encoding", b"Chunked")], b"{}")
        assert answer.status == 202

    asyncio.run(check())


@pytest.mark.parametrize("framing", [(b"content-length", b"2"), (b"transfer-encoding", b"chunked")])
def test_an_event_whose_data_a_server_lost_is_refused(framing: tuple[bytes, bytes]) -> None:
    """It was accepted without its data: uvicorn gives an app no body after a header `upgrade`."""

    async def check() -> None:
        bus = Bus()
        answer = await ask(receiver(bus), [*BINARY, (b"upgrade", b"h2c"), framing])
        assert answer.status == 400
        assert "send the request without this header" in answer.detail
        assert not bus.events
        no_body = [*BINARY, (b"upgrade", b"h2c"), (b"content-length", b"0")]
        assert (await ask(receiver(bus), no_body)).status == 202

    asyncio.run(check())


def test_202_comes_only_when_the_bus_has_the_event() -> None:
    async def check() -> None:
        bus = Bus()
        bus.may_write.clear()
        asked = asyncio.ensure_future(ask(receiver(bus)))
        done, _ = await asyncio.wait([asked], timeout=0)
        assert not done
        bus.may_write.set()
        assert (await asked).status == 202

    asyncio.run(check())


@pytest.mark.parametrize(
    ("headers", "body", "status", "says"),
    [
        (BINARY[1:], b"", 400, "specversion"),
        ([*BINARY, (b"ce-time", b"yesterday")], b"", 400, "RFC 3339"),
        ([BATCH], b'[{"id":"1"}]', 400, "event 1 of 1"),
        ([(b"content-type", b"application/json")], b"{}", 400, "no ce- headers"),
        ([(b"content-type", b"application/cloudevents+avro")], b"", 415, "application/cloudevents+json"),
        ([*BINARY, (b"content-encoding", b"GZIP")], b"\x1f", 415, "without content-encoding"),
        ([BATCH, (b"content-encoding", b"identity"), (b"content-encoding", b"br")], b"[]", 415, "without"),
        ([*BINARY, (b"transfer-encoding", b"gzip, chunked")], b"\x1f", 415, "chunked alone"),
        ([*BINARY, (b"transfer-encoding", b"gzip"), (b"transfer-encoding", b"chunked")], b"", 415, "chunked"),
        ([*BINARY, (b"content-length", b"11")], b"", 413, "10 bytes"),
        ([*BINARY, (b"content-length", b"9" * 5000)], b"", 413, "10 bytes"),
        ([*BINARY, (b"content-length", b"0" * 5000 + b"1")], b"", 413, "10 bytes"),
        (BINARY, [b"x" * 6, b"y" * 6], 413, "dataref"),
        ([*BINARY[:3], (b"ce-type", b"interlock.airflow.dag_run.succeeded")], b"", 403, "type 'interlock."),
        ([*BINARY[:3], (b"ce-type", b"org.apache.kafka.record")], b"", 403, "type 'org.apache.kafka.record'"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_gets_its_status_and_the_reason(
    headers: list[tuple[bytes, bytes]], body: Any, status: int, says: str
) -> None:
    async def check() -> None:
        bus = Bus()
        limit = 10 if status == 413 else 1000
        answer = await ask(receiver(bus, body_bytes=limit), headers, body)
        assert answer.status == status
        assert says in answer.detail
        assert not bus.events

    asyncio.run(check())


@pytest.mark.parametrize(
    ("error", "status", "again"),
    [
        (UnreachableError("down"), 503, True),
        (NoRoom("full"), 429, True),
        (NotSent("too large"), 413, False),
        (RuntimeError("a secret"), 500, True),
    ],
)
def test_a_bus_that_does_not_take_an_event_gets_a_status_without_its_secrets(
    error: Exception, status: int, again: bool
) -> None:
    async def check() -> None:
        answer = await ask(receiver(Bus(error)))
        assert answer.status == status
        assert ("retry-after" in answer.headers) == again
        assert "secret" not in answer.detail

    asyncio.run(check())


def test_a_receiver_that_starts_or_ends_is_not_ready_and_refuses_events() -> None:
    async def check() -> None:
        ending = receiver(None)
        assert (await ask(ending)).status == 503
        assert (await ask(ending, path="/readyz", method="GET")).status == 503
        assert (await ask(ending, path="/healthz", method="GET")).status == 200
        assert (await ask(receiver(Bus()), path="/readyz", method="GET")).status == 200

    asyncio.run(check())


@pytest.mark.parametrize(
    ("path", "method", "status", "allow"),
    [
        ("/", "POST", 404, None),
        ("/events", "GET", 405, "POST"),
        ("/events", "OPTIONS", 405, "POST"),
        ("/readyz", "POST", 405, "GET, HEAD"),
    ],
)
def test_other_paths_and_methods_are_refused(path: str, method: str, status: int, allow: str | None) -> None:
    async def check() -> None:
        answer = await ask(receiver(Bus()), path=path, method=method)
        assert (answer.status, answer.headers.get("allow")) == (status, allow)

    asyncio.run(check())


@pytest.mark.parametrize(
    "header",
    [None, b"Bearer wrong", b"Basic bGV0bWVpbg==", b"Bearer ", b"letmein", b"bearer " + DIGEST.encode()],
)
def test_a_request_without_a_known_token_is_refused(header: bytes | None) -> None:
    async def check() -> None:
        bus = Bus()
        headers = BINARY if header is None else [*BINARY, (b"authorization", header)]
        answer = await ask(receiver(bus, shop(types=["*"])), headers)
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert not bus.events

    asyncio.run(check())


@pytest.mark.parametrize(
    ("granted", "sent", "status"),
    [
        ({}, {b"ce-type": b"com.shop.orders"}, 202),
        ({}, {b"ce-type": b"com.bank.rates"}, 403),
        ({"types": ["*"]}, {b"ce-type": b"interlock.spark.application.succeeded"}, 403),
        ({"types": ["interlock.spark.*"]}, {b"ce-type": b"interlock.spark.application.succeeded"}, 202),
        ({"types": ["*", "interlock.*"]}, {b"ce-type": b"org.apache.kafka.record"}, 403),
        ({"types": ["org.apache.kafka.record"]}, {b"ce-type": b"org.apache.kafka.record"}, 202),
        ({"types": ["*"], "sources": ["/shop/*"]}, {b"ce-source": b"/shop/eu"}, 202),
        ({"types": ["*"], "sources": ["/shop/*"]}, {b"ce-source": b"/bank"}, 403),
        ({"types": ["*"], "sources": ["/[a]"]}, {b"ce-source": b"/a"}, 403),
        ({"types": ["*"], "subjects": ["eu-*"]}, {b"ce-subject": b"us-1"}, 403),
        ({"types": ["*"], "subjects": ["eu-*"]}, {}, 403),
        ({"types": ["*"], "buses": ["test"]}, {}, 401),
        ({"types": ["*"], "buses": ["pr*"]}, {}, 202),
    ],
)
def test_a_credential_may_write_what_its_patterns_name(
    granted: dict[str, Any], sent: dict[bytes, bytes], status: int
) -> None:
    async def check() -> None:
        headers = [*{**dict(BINARY), **sent}.items(), (b"authorization", b"Bearer " + TOKEN.encode())]
        assert (await ask(receiver(Bus(), shop(**granted)), headers)).status == status

    asyncio.run(check())


def test_one_event_of_a_batch_that_may_not_be_written_refuses_the_batch() -> None:
    async def check() -> None:
        bus = Bus()
        form = {"specversion": "1.0", "id": "1", "source": "/s"}
        batch = json.dumps([{**form, "type": "t"}, {**form, "type": "interlock.x"}]).encode()
        assert (await ask(receiver(bus), [BATCH], batch)).status == 403
        assert not bus.events

    asyncio.run(check())


def test_what_is_held_is_bounded_and_free_again_after_the_answer() -> None:
    async def check() -> None:
        bus = Bus()
        bus.may_write.clear()
        bounded = receiver(bus, held_bytes=5000)
        headers = [*BINARY, (b"content-length", b"10")]
        first = [asyncio.ensure_future(ask(bounded, headers, b"x" * 10)) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await ask(bounded, headers, b"x" * 10)
        assert refused.status == 429
        assert refused.headers["retry-after"] == "1"
        bus.may_write.set()
        assert [answer.status for answer in await asyncio.gather(*first)] == [202, 202]
        assert (await ask(bounded, headers, b"x" * 10)).status == 202

    asyncio.run(check())


def test_senders_that_are_not_proven_yet_leave_room_for_the_others() -> None:
    class NeedsBody(CloudEvents):
        needs_body = True

    async def never() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def ignored(_message: dict[str, Any]) -> None: ...

    async def check() -> None:
        paths = {"/signed": NeedsBody(Credentials()), "/events": CloudEvents(Credentials())}
        bounded = Receiver(paths, RequestLimits(held_bytes=100_000, unproven_bytes=10_000))
        bounded.writer = bus = Bus()
        headers = [*BINARY, (b"content-length", b"2000")]
        scope = {"type": "http", "path": "/signed", "method": "POST", "headers": headers}
        begun = [asyncio.create_task(bounded(scope, never, ignored)) for _ in range(2)]
        await asyncio.sleep(0)
        assert (await ask(bounded, headers, path="/signed")).status == 429
        assert (await ask(bounded, headers)).status == 202
        begun.pop().cancel()
        await asyncio.sleep(0)
        bus.may_write.clear()
        waiting = [asyncio.create_task(ask(bounded, headers, path="/signed")) for _ in range(5)]
        await asyncio.sleep(0)
        bus.may_write.set()  # proven requests, which wait for Kafka, take no part of it
        assert [(await each).status for each in waiting] == [202] * 5
        begun.pop().cancel()

    asyncio.run(check())


def test_headers_and_each_event_of_a_batch_count_as_held() -> None:
    async def check() -> None:
        bus = Bus()
        bus.may_write.clear()
        bounded = receiver(bus, held_bytes=100_000)
        headers = [*BINARY, (b"content-length", b"0"), (b"x", b"y" * 60_000)]
        first = asyncio.ensure_future(ask(bounded, headers))
        await asyncio.sleep(0)
        assert (await ask(bounded, headers)).status == 429
        bus.may_write.set()
        assert (await first).status == 202
        one = json.dumps({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"})
        for events, status in ((60, 429), (40, 202), (40, 202), (60, 429)):
            body = f"[{','.join([one] * events)}]".encode()
            sized = [BATCH, (b"content-length", str(len(body)).encode())]
            answer = await ask(bounded, sized, body)
            assert (answer.status, "retry-after" in answer.headers) == (status, status == 429)
        assert len(bus.events) == 81

    asyncio.run(check())


def test_metrics_that_fail_change_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_path: str, _status: int, _events: int) -> None:
        raise OSError("no room")

    async def check() -> None:
        made = Receiver({"/events": CloudEvents(Credentials())}, observe=broken)
        made.writer = bus = Bus()
        assert [(await ask(made)).status for _ in range(2)] == [202, 202]
        assert len(bus.events) == 2

    asyncio.run(check())
    assert [line for line in caplog.messages if "OSError('no room')" in line] == caplog.messages
    assert len(caplog.messages) == 1


def test_an_outage_is_one_line_of_the_log_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        down, up = Bus(UnreachableError("the broker is away")), Bus()
        made = receiver(down)
        for bus in (down, down, up, down, down):
            made.writer = bus
            await ask(made)

    asyncio.run(check())
    assert len([line for line in caplog.messages if "the broker is away" in line]) == 1


def test_a_body_that_does_not_arrive_is_abandoned() -> None:
    async def check() -> None:
        async def receive() -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

        messages: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            messages.append(message)

        scope = {"type": "http", "path": "/events", "method": "POST", "headers": BINARY}
        await receiver(Bus(), body_s=0.01)(scope, receive, send)
        assert Answered(messages).status == 408

    asyncio.run(check())


def batch(events: int, data: str = "") -> bytes:
    form = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": data}
    return f"[{','.join([json.dumps(form)] * events)}]".encode()


def test_a_batch_has_at_most_a_stated_number_of_events() -> None:
    async def check() -> None:
        bus = Bus()
        answer = await ask(receiver(bus), [BATCH], batch(5001))
        assert answer.status == 413
        assert "at most 5000" in answer.detail
        assert not bus.events
        assert (await ask(receiver(bus), [BATCH], batch(5000))).status == 202
        assert len(bus.events) == 5000

    asyncio.run(check())


def test_an_event_has_at_most_a_stated_number_of_attributes() -> None:
    async def check() -> None:
        bus = Bus()
        form = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
        kind = [(b"content-type", b"application/cloudevents+json")]
        for more, status in ((196, 202), (197, 400)):
            body = json.dumps({**form, **{f"a{number}": "x" for number in range(more)}}).encode()
            answer = await ask(receiver(bus), kind, body)
            assert answer.status == status
        assert "201 attributes" in answer.detail
        assert len(bus.events) == 1

    asyncio.run(check())


@pytest.mark.parametrize("headers", [[], [(b"content-encoding", b"identity")]], ids=["large", "encoded"])
def test_a_request_that_takes_long_to_read_does_not_stop_others(headers: list[tuple[bytes, bytes]]) -> None:
    """The endpoint reads it in a thread; until it returns, other requests are answered."""

    class Slow(CloudEvents):
        def read(self, request: Request, body: bytes) -> list[Event]:
            if len(body) > 100:
                assert may_read.wait(20)
            return super().read(request, body)

    may_read = threading.Event()

    async def check() -> None:
        bus = Bus()
        made = Receiver({"/events": Slow(Credentials())})
        made.writer = bus
        body = batch(1, "x" * (200 if headers else 100_000))
        slow = asyncio.ensure_future(ask(made, [BATCH, *headers], body))
        for _ in range(5):
            await asyncio.sleep(0)
        assert (await ask(made, path="/healthz", method="GET")).status == 200
        assert (await ask(made)).status == 202
        assert not slow.done()
        may_read.set()
        assert (await slow).status == 202
        assert len(bus.events) == 2

    asyncio.run(check())


def test_faults_of_kafka_are_logged_once_a_minute_each(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    faults = Faults(lambda: now)
    for text in ["a", "b", "a", "b"]:
        faults.report(text)
    now = 61.0
    faults.report("a")
    assert [record.getMessage() for record in caplog.records] == ["receiver: a", "receiver: b", "receiver: a"]
