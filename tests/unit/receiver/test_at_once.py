"""Answers in one piece: they are those of uvicorn, and cost no work of the garbage collector."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from interlock.receiver.answers import Response
from interlock.receiver.at_once import WholeRequest

from tests.unit.receiver.test_connection import CHUNKED, LINE, REQUEST, START, Peer, run

DATE = (b"date", b"Sat, 28 Nov 2026 10:00:00 GMT")


def answers(request: bytes, monkeypatch: pytest.MonkeyPatch, at_once: bool) -> tuple[bytes, bool, list[bool]]:
    """What two such requests get on one connection, and whether it closes; which were answered at once."""
    found: list[Any] = []
    answered: list[bool] = []

    def answer(whole: WholeRequest, answer: Response) -> bool:
        answered.append(at_once and original(whole, answer))
        return answered[-1]

    def body(whole: WholeRequest) -> bytes | None:
        return taken(whole) if at_once else None

    async def check(peer: Peer) -> None:
        peer.connection.access_log = False  # as in the receiver's settings
        peer.connection.server_state.default_headers = [DATE]
        await peer.send(request)
        await peer.send(request)
        found[:] = peer.transport.sent, peer.transport.closed.is_set()

    original, taken = WholeRequest.answer, WholeRequest.body
    with monkeypatch.context() as patch:
        patch.setattr(WholeRequest, "answer", answer)
        patch.setattr(WholeRequest, "body", body)
        run(check)
    return found[0], found[1], answered


AT_ONCE = {
    "event": REQUEST,
    "chunks": CHUNKED + b"2\r\n{}\r\n0\r\n\r\n",
    "no event": START + b"content-length: 2\r\n\r\n{}",
    "no path": LINE.replace(b"/events", b"/other") + b"content-length: 0\r\n\r\n",
    "expect": REQUEST.replace(b"host: x", b"host: x\r\nexpect: 100-continue"),
    "get": b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
}
OTHERS = {
    "head": b"HEAD /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
    "headers": b"GET /events HTTP/1.1\r\nhost: x\r\n\r\n",
    "close": REQUEST.replace(b"host: x", b"host: x\r\nconnection: close"),
    "1.0": REQUEST.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "1.0 kept": REQUEST.replace(b"HTTP/1.1\r\nhost: x", b"HTTP/1.0\r\nconnection: keep-alive"),
}


@pytest.mark.parametrize("name", [*AT_ONCE, *OTHERS])
def test_an_answer_at_once_is_that_of_uvicorn(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    request = AT_ONCE.get(name) or OTHERS[name]
    sent, is_closed, answered = answers(request, monkeypatch, True)
    assert answered == ([True, True] if name in AT_ONCE else [False] * len(answered))
    assert (sent, is_closed) == answers(request, monkeypatch, False)[:2]
    assert sent.count(DATE[1]) == (1 if is_closed else 2)


def test_an_answer_waits_for_a_peer_that_reads_slowly() -> None:
    async def check(peer: Peer) -> None:
        peer.connection.access_log = False
        peer.connection.pause_writing()
        await peer.send(REQUEST)
        assert peer.bus.events
        assert not peer.transport.sent
        peer.connection.resume_writing()
        await peer.rest()
        assert peer.statuses == [202]

    run(check)


@pytest.mark.parametrize("request_", [REQUEST, START + b"content-length: 2\r\n\r\n{}"])
def test_an_answered_request_is_freed_without_the_garbage_collector(request_: bytes) -> None:
    async def check(peer: Peer) -> None:
        peer.connection.access_log = False
        gc.disable()
        try:
            await peer.send(request_)
            cycle = weakref.ref(peer.connection.cycle)
            await peer.send(request_)
            assert cycle() is None
        finally:
            gc.enable()

    run(check)


def test_a_connection_does_not_keep_the_body_of_an_answered_request() -> None:
    async def check(peer: Peer) -> None:
        await peer.send(REQUEST)
        assert peer.bus.events[0].data == b"{}"
        assert not peer.connection.cycle.body

    run(check)


def test_events_of_a_peer_that_is_gone_before_they_are_read_are_not_written() -> None:
    async def check(peer: Peer) -> None:
        peer.connection.data_received(REQUEST)
        peer.connection.connection_lost(None)
        await peer.rest()
        assert not peer.bus.events

    run(check)
