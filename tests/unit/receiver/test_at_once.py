"""Answers in one piece: they are those of uvicorn, and cost no work of the garbage collector."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from interlock.receiver import connection as module

from tests.unit.receiver.test_connection import CHUNKED, LINE, REQUEST, START, Peer, run

DATE = (b"date", b"Sat, 28 Nov 2026 10:00:00 GMT")


def answers(request: bytes, monkeypatch: pytest.MonkeyPatch, at_once: bool) -> tuple[bytes, bool, list[bool]]:
    """What two such requests get on one connection, and whether it closes; which were answered at once."""
    found: list[Any] = []
    answered: list[bool] = []

    def answer(*arguments: Any) -> bool:
        answered.append(at_once and original(*arguments))
        return answered[-1]

    async def check(peer: Peer) -> None:
        peer.connection.access_log = False  # as in the receiver's settings
        peer.connection.server_state.default_headers = [DATE]
        await peer.send(request)
        await peer.send(request)
        found[:] = peer.transport.sent, peer.transport.closed.is_set()

    original = module.answer_at_once
    with monkeypatch.context() as patch:
        patch.setattr(module, "answer_at_once", answer)
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
