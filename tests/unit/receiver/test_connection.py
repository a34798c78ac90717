"""A connection of the receiver: what bounds its peer, and that each request gets its own answer."""

from __future__ import annotations

import asyncio
import gc
import logging.config
import socket
import weakref
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any

import pytest
import uvicorn
from interlock.events import Event
from interlock.receiver import connection as module
from interlock.receiver.app import Receiver, RequestLimits
from interlock.receiver.cloudevents import CloudEvents
from interlock.receiver.connection import Connection
from interlock.receiver.credentials import Credentials
from interlock.receiver.server import KEEP_ALIVE_S
from uvicorn.server import ServerState

LINE = b"POST /events HTTP/1.1\r\nhost: x\r\n"
START = LINE + b"ce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\n"
REQUEST = START + b"ce-type: t\r\ncontent-length: 2\r\n\r\n{}"
CHUNKED = START + b"ce-type: t\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture(autouse=True)
def _short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINGER_S", 0.0)


class Bus:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.may_write = asyncio.Event()
        self.may_write.set()

    async def write(self, events: list[Event]) -> None:
        await self.may_write.wait()
        self.events += events


class Transport(asyncio.Transport):
    """Keeps what the connection sends, and whether it closed."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.ended = False
        self.closed = asyncio.Event()
        self.aborted = asyncio.Event()

    def write(self, data: Any) -> None:
        assert not self.closed.is_set()
        assert not self.ended
        self.sent += data

    def close(self) -> None:
        self.closed.set()

    def abort(self) -> None:
        self.closed.set()
        self.aborted.set()

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Peer:
    """The other side of a connection to a receiver."""

    def __init__(self, **limits: float) -> None:
        self.bus, self.transport = Bus(), Transport()
        receiver = Receiver({"/events": CloudEvents(Credentials())}, RequestLimits(**limits))  # type: ignore[arg-type]
        receiver.writer = self.bus
        config = uvicorn.Config(
            receiver,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        config.load()
        self.connection = Connection(config, ServerState(), {}, asyncio.get_running_loop())
        self.connection.connection_made(self.transport)

    async def another(self, data: bytes) -> Peer:
        """A further connection to the same receiver, which sends this."""
        peer = copy(self)
        peer.transport = Transport()
        config, state = self.connection.config, self.connection.server_state
        peer.connection = Connection(config, state, {}, asyncio.get_running_loop())
        peer.connection.connection_made(peer.transport)
        await peer.send(data)
        return peer

    async def send(self, data: bytes) -> None:
        if not self.transport.closed.is_set():
            self.connection.data_received(data)
        await self.rest()

    async def rest(self) -> None:
        for _ in range(10):  # turns of the loop, in which the app does all that it can
            await asyncio.sleep(0)

    @property
    def statuses(self) -> list[int]:
        return [int(part[:3]) for part in self.transport.sent.split(b"HTTP/1.1 ")[1:]]


def run(check: Callable[[Peer], Awaitable[None]], **limits: float) -> None:
    async def made() -> None:
        async with asyncio.timeout(20):  # of a connection that never closes
            peer = Peer(**limits)
            await check(peer)
            peer.connection.connection_lost(None)

    asyncio.run(made())


@pytest.mark.parametrize("at_once", [True, False])
def test_a_trailer_is_no_attribute(at_once: bool) -> None:
    async def check(peer: Peer) -> None:
        parts = [START, b"transfer-encoding: chunked\r\n\r\n", b"0\r\nce-type: t\r\n\r\n"]
        for part in [b"".join(parts)] if at_once else parts:
            await peer.send(part)
        assert peer.statuses == [400]
        assert b"type is missing" in peer.transport.sent
        assert not peer.bus.events

    run(check)


@pytest.mark.parametrize("path", [b"/events", b"/other"])
@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"0\r\n", b"a: b\r\n" * 1000),
        (b"0\r\na: ", b"b" * 6000),
        (b"0", b";a=b" * 1500),
        (b"1;a=", b"b" * 6000),
    ],
)
def test_what_is_neither_headers_nor_body_is_bounded(path: bytes, start: bytes, more: bytes) -> None:
    async def check(peer: Peer) -> None:
        await peer.send(CHUNKED.replace(b"/events", path))
        await peer.send(start)
        for _ in range(12):
            await peer.send(more)
        assert peer.statuses == [404 if path == b"/other" else 431]
        sent = peer.transport.sent
        if not peer.transport.closed.is_set():
            peer.connection.data_received(b"\r\n\r\n" + REQUEST)
        await peer.transport.closed.wait()
        assert peer.transport.sent == sent
        assert not peer.bus.events

    run(check)


UPGRADE = REQUEST.replace(b"host: x", b"host: x\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c")


@pytest.mark.parametrize(
    ("request_", "data"),
    [
        (UPGRADE, b"{}"),
        (UPGRADE.replace(b"content-length: 2\r\n\r\n{}", b"content-length: 0\r\n\r\n"), None),
        (
            UPGRADE.replace(
                b"content-length: 2\r\n\r\n{}", b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
            ),
            b"{}",
        ),
    ],
    ids=["length", "no body", "chunked"],
)
@pytest.mark.parametrize("is_split", [True, False])
def test_a_request_that_offers_another_protocol_is_read_as_any_other(
    request_: bytes, data: bytes | None, is_split: bool
) -> None:
    """Java's HttpClient offers HTTP/2 with each request: its events were written without their data, or the
    body was read as the next request, and answered 400.
    """
    parts = [bytes([byte]) for byte in request_] if is_split else [request_]

    async def check(peer: Peer) -> None:
        for _ in range(3):
            for part in parts:
                await peer.send(part)
        await peer.send(REQUEST)
        assert peer.statuses == [202] * 4
        assert [event.data for event in peer.bus.events] == [data, data, data, b"{}"]
        assert not peer.transport.closed.is_set()

    run(check)


def test_requests_sent_before_the_answer_are_not_taken_and_the_connection_closes_after_it() -> None:
    async def check(peer: Peer) -> None:
        peer.bus.may_write.clear()
        await peer.send(REQUEST * 1000)
        await peer.send(REQUEST)
        assert len(peer.connection.tasks) == 1
        assert not peer.connection.pipeline
        peer.bus.may_write.set()
        await peer.rest()
        assert peer.statuses == [202]
        assert b"connection: close" in peer.transport.sent
        assert len(peer.bus.events) == 1
        assert peer.transport.closed.is_set()

    run(check)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    "after", [b"nonsense\r\n\r\n", b"\x00\xff", LINE + b"a: " + b"b" * 70_000 + b"\r\n\r\n"]
)
def test_a_request_gets_its_own_answer_whatever_follows_it(after: bytes, together: bool) -> None:
    async def check(peer: Peer) -> None:
        peer.bus.may_write.clear()
        for part in [REQUEST + after] if together else [REQUEST, after]:
            await peer.send(part)
        assert peer.statuses == []
        peer.bus.may_write.set()
        await peer.rest()
        assert peer.statuses == [202]
        assert peer.transport.closed.is_set()

    run(check)


def test_a_body_that_does_not_arrive_in_time_is_abandoned_and_one_that_is_there_is_read() -> None:
    async def check(peer: Peer) -> None:
        await peer.send(REQUEST)
        assert peer.statuses == [202]
        await peer.send(REQUEST[:-1])
        await peer.transport.closed.wait()
        assert peer.statuses == [202, 408]

    run(check, body_s=0.0)


@pytest.mark.parametrize(
    ("request_", "after"),
    [
        (REQUEST, b"\r\n"),
        (REQUEST.replace(b"host: x", b"host: x\r\nconnection: upgrade\r\nupgrade: h2c"), b"x"),
    ],
)
@pytest.mark.parametrize("is_answered", [True, False])
def test_what_begins_no_request_is_bounded_and_the_request_before_it_gets_its_answer(
    request_: bytes, after: bytes, is_answered: bool
) -> None:
    async def check(peer: Peer) -> None:
        if not is_answered:
            peer.bus.may_write.clear()
        await peer.send(request_)
        for _ in range(20):
            await peer.send(after * 5000)
        peer.bus.may_write.set()
        await peer.rest()
        assert peer.statuses[:1] == [202]
        await peer.transport.closed.wait()
        assert len(peer.bus.events) == 1

    run(check)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"POST /other HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n", b"x"),
        (b"POST /other HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"POST /events HTTP/1.1\r\nhost: x\r\ncontent-length: 9000000\r\n\r\n", b"x" * 100),
        (REQUEST, b"\r\n"),
        (REQUEST, b"P"),
        (b"POST /other HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n", b"x" * 9 + b"P"),
        (
            b"POST /other HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n",
            b"0\r\n\r\nPOST /events H",
        ),
    ],
)
def test_a_connection_with_half_a_request_closes(
    monkeypatch: pytest.MonkeyPatch, first: bytes, then: bytes
) -> None:
    async def check(peer: Peer) -> None:
        await peer.send(first)
        monkeypatch.setattr(module, "SLOW_PEER_S", 0.0)
        await peer.send(then)
        await peer.transport.closed.wait()
        assert len(peer.statuses) == 1

    monkeypatch.setattr(module, "SLOW_PEER_S", 0.01)
    run(check)


def test_a_body_that_was_refused_is_discarded_and_the_next_request_is_taken() -> None:
    async def check(peer: Peer) -> None:
        await peer.send(LINE + b"content-length: 2000000\r\n\r\n" + b"x" * 1000)
        assert peer.statuses == [413]
        for _ in range(1999):
            await peer.send(b"x" * 1000)
        await peer.send(REQUEST)
        assert peer.statuses == [413, 202]
        assert not peer.transport.closed.is_set()

    run(check)


def test_a_peer_that_asks_before_it_sends_a_body_that_is_refused_does_not_send_it() -> None:
    async def check(peer: Peer) -> None:
        await peer.send(LINE + b"expect: 100-continue\r\ncontent-length: 2000000\r\n\r\n")
        assert peer.statuses == [413]
        assert peer.transport.closed.is_set()

    run(check)


def test_a_peer_that_asks_before_it_sends_what_is_no_http_gets_one_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def check(peer: Peer) -> None:
        await peer.send(LINE + b"expect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")
        assert peer.statuses == [400]
        assert not caplog.records

    run(check)


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        REQUEST.replace(b"content-length: 2", b"content-length: 2\r\ntransfer-encoding: chunked"),
        REQUEST.replace(b"content-length: 2", b"content-length: 2\r\ncontent-length: 2"),
        REQUEST.replace(b"content-length: 2", b"transfer-encoding: xchunked"),
        CHUNKED + b"zz\r\n",
    ],
)
def test_what_is_no_http_gets_one_problem_document(request_: bytes) -> None:
    async def check(peer: Peer) -> None:
        await peer.send(request_)
        await peer.transport.closed.wait()
        assert peer.statuses == [400]
        assert b"application/problem+json" in peer.transport.sent
        assert not peer.bus.events

    run(check)


@pytest.mark.parametrize(
    ("request_", "statuses"),
    [
        (REQUEST.replace(b"host: x\r\n", b""), [400]),
        (REQUEST.replace(b"host: x", b"host: x\r\nHost: y"), [400]),
        (REQUEST.replace(b"HTTP/1.1\r\nhost: x\r\n", b"HTTP/1.0\r\n"), [202]),
        (REQUEST.replace(b"HTTP/1.1\r\nhost: x", b"HTTP/1.0\r\nhost: x\r\nhost: x"), [400]),
    ],
    ids=["none", "two", "none of HTTP/1.0", "two of HTTP/1.0"],
)
def test_a_request_names_its_host_once(request_: bytes, statuses: list[int]) -> None:
    """RFC 9112, section 3.2: a server must answer 400."""

    async def check(peer: Peer) -> None:
        await peer.send(request_)
        await peer.transport.closed.wait()
        assert peer.statuses == statuses
        assert len(peer.bus.events) == statuses.count(202)

    run(check)


def test_a_malformed_request_leaves_nothing_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def check(peer: Peer) -> None:
        await peer.send(b"nonsense\r\n\r\n")
        assert peer.statuses == [400]

    logging.config.dictConfig(
        {"version": 1, "disable_existing_loggers": False, "loggers": {"uvicorn.error": {}}}
    )
    with caplog.at_level("DEBUG"):
        run(check)
    assert not [record for record in caplog.records if record.name != "asyncio"]


def test_a_peer_that_does_not_read_its_answers_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(peer: Peer) -> None:
        peer.connection.pause_writing()  # the transport's buffer is full
        await peer.send(REQUEST)
        await peer.transport.aborted.wait()

    monkeypatch.setattr(module, "SLOW_PEER_S", 0.01)
    run(check)


def test_a_peer_that_reads_again_is_kept() -> None:
    async def check(peer: Peer) -> None:
        peer.connection.pause_writing()
        await peer.send(REQUEST)
        assert peer.statuses == []
        peer.connection.resume_writing()
        await peer.rest()
        assert peer.statuses == [202]
        assert peer.connection._abort_timer is None

    run(check)


@pytest.mark.parametrize(
    "end",
    [
        lambda peer: peer.send(REQUEST.replace(b"host: x", b"host: x\r\nconnection: close")),
        lambda peer: peer.send(b"nonsense\r\n\r\n"),
        lambda peer: asyncio.to_thread(peer.connection.loop.call_soon_threadsafe, peer.connection.shutdown),
        lambda peer: asyncio.to_thread(
            peer.connection.loop.call_soon_threadsafe, peer.connection.timeout_keep_alive_handler
        ),
    ],
    ids=["after the answer", "malformed", "shutdown", "idle"],
)
def test_a_close_that_waits_for_the_peer_to_read_ends(
    monkeypatch: pytest.MonkeyPatch, end: Callable[[Peer], Awaitable[None]]
) -> None:
    async def check(peer: Peer) -> None:
        await end(peer)
        await peer.transport.aborted.wait()

    monkeypatch.setattr(module, "SLOW_PEER_S", 0.01)
    run(check)


@pytest.mark.parametrize(
    ("others", "statuses", "aborted"), [(1, [], False), (2, [503], False), (9, [], True)]
)
def test_connections_beyond_the_bound_are_refused_then_cut(
    monkeypatch: pytest.MonkeyPatch, others: int, statuses: list[int], aborted: bool
) -> None:
    async def check(peer: Peer) -> None:
        peer.bus.may_write.clear()
        await peer.send(REQUEST)  # it waits for its answer, so it does not give way
        peer.connection.connections |= {object() for _ in range(others - 1)}
        again = Connection(
            peer.connection.config, peer.connection.server_state, {}, asyncio.get_running_loop()
        )
        transport = Transport()
        again.connection_made(transport)
        assert [int(part[:3]) for part in transport.sent.split(b"HTTP/1.1 ")[1:]] == statuses
        assert transport.aborted.is_set() == aborted
        again.connection_lost(None)

    monkeypatch.setattr(Connection, "most_connections", 2)
    monkeypatch.setattr(module, "_REFUSED_AT_ONCE", 2)
    run(check)


@pytest.mark.parametrize(
    "sent",
    [[], [START], [CHUNKED, b"1\r\nx\r\n"], [REQUEST], [b"nonsense\r\n\r\n"]],
    ids=["nothing", "half of the headers", "half of a body", "a request that is answered", "no HTTP"],
)
def test_a_connection_that_owes_a_whole_request_gives_way_to_a_new_one(
    monkeypatch: pytest.MonkeyPatch, sent: list[bytes]
) -> None:
    """New connections were answered 503: peers that sent nothing kept all others out."""

    async def check(peer: Peer) -> None:
        for part in sent:
            await peer.send(part)
        new = await peer.another(REQUEST)
        assert peer.transport.aborted.is_set()
        assert new.statuses == [202]
        assert list(Connection.idle.peers) == [new.connection]
        new.connection.connection_lost(None)

    monkeypatch.setattr(Connection, "most_connections", 1)
    run(check)


def test_a_connection_gives_way_only_while_it_waits_for_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(peer: Peer) -> None:
        peer.bus.may_write.clear()
        await peer.send(REQUEST)
        refused = await peer.another(b"")
        assert refused.statuses == [503]
        peer.bus.may_write.set()
        await peer.rest()
        assert peer.statuses == [202]
        refused.connection.connection_lost(None)
        new = await peer.another(b"")
        assert peer.transport.aborted.is_set()
        assert not new.transport.closed.is_set()
        new.connection.connection_lost(None)

    monkeypatch.setattr(Connection, "most_connections", 1)
    run(check)
    assert not Connection.idle.peers


def test_a_connection_that_was_reset_is_not_kept() -> None:
    """It was kept with its last request for the 75 s of keep-alive: a flood of them took gigabytes."""

    async def check(peer: Peer) -> None:
        other = await peer.another(REQUEST)
        assert other.statuses == [202]
        connection = weakref.ref(other.connection)
        other.connection.connection_lost(ConnectionResetError())
        del other
        gc.collect()
        assert connection() is None

    run(check)


def test_the_connection_awaited_longest_gives_way_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(peer: Peer) -> None:
        second = await peer.another(b"")
        await peer.send(REQUEST)  # and now it is awaited for a shorter time than the second
        third = await peer.another(b"")
        assert second.transport.aborted.is_set()
        assert not peer.transport.closed.is_set()
        for each in (second, third):
            each.connection.connection_lost(None)

    monkeypatch.setattr(Connection, "most_connections", 2)
    run(check)


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "most"),
    [
        (1024, 1_048_576, 2300, 2000),
        (1024, -1, 2300, 2000),
        (1024, 2000, 2000, 1700),
        (1024, 1024, None, 724),
        (65536, 65536, None, 2000),
        (-1, -1, None, 2000),
        (64, 64, None, 1),
    ],
)
def test_open_files_are_raised_as_far_as_allowed_and_bound_the_connections(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised: int | None, most: int
) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(module.resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(module.resource, "setrlimit", lambda _, limit: limits.append(limit))
    assert module.reserve_connections() == most
    assert limits == ([] if raised is None else [(raised, hard)])


def test_a_process_that_may_not_raise_its_limit_takes_fewer_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(module.resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(module.resource, "setrlimit", refuse)
    assert module.reserve_connections() == 724


def test_the_kernel_holds_a_bounded_amount_for_a_peer_that_does_not_read() -> None:
    async def check(peer: Peer) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            before = ours.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            transport = Transport()
            transport._extra = {"socket": ours}  # type: ignore[attr-defined]
            again = Connection(peer.connection.config, ServerState(), {}, asyncio.get_running_loop())
            again.connection_made(transport)
            again.connection_lost(None)
            after = ours.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)  # Linux doubles what is asked
            assert after == 2 * 64 * 1024 != before

    run(check)
