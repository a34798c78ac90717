"""Reads and answers a request without ASGI's messages, which take an eighth of its processor time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from .answers import Response, header_lines

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_Headers = Sequence[tuple[bytes, bytes]]


class _Latest:
    """Headers that uvicorn adds to each answer, as lines. It makes others each second: they have the date."""

    def __init__(self) -> None:
        self._headers: _Headers = ()
        self._lines = b""

    def lines(self, headers: _Headers) -> bytes:
        if headers is not self._headers:
            self._headers, self._lines = headers, header_lines(headers)
        return self._lines


_latest = _Latest()


class WholeRequest:
    """The request of a cycle, which has arrived completely: `scope.Whole`."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    def body(self) -> bytes | None:
        """Takes the body; None if the peer is gone, or is to be told to continue."""
        cycle = self._cycle
        if cycle.disconnected or cycle.waiting_for_100_continue:
            return None
        body = bytes(cycle.body)
        cycle.body.clear()
        cycle.flow.resume_reading()
        return body

    def answer(self, answer: Response) -> bool:
        return answer_at_once(self._cycle, answer)


def answer_at_once(cycle: RequestResponseCycle, answer: Response) -> bool:
    """Answers the request of the cycle, which is not HEAD, as uvicorn does for ASGI's messages.

    Returns False if that needs more, and has done nothing then: the connection closes after the answer or its
    peer reads too slowly, the answer has headers that uvicorn would check, or it is to be logged.
    """
    if (
        cycle.response_started
        or cycle.disconnected
        or not cycle.keep_alive
        or cycle.flow.write_paused
        or cycle.access_log
        or answer.headers
    ):
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    head = STATUS_LINE[answer.status] + _latest.lines(cycle.default_headers) + answer.lines
    cycle.transport.write(head + b"\r\n" + answer.body)
    cycle.message_event.set()
    cycle.on_response()
    return True
