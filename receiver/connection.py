"""uvicorn's HTTP/1.1 connection with bounds on time and size of the headers, which it does not have."""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from .answers import Answer, problem, try_again

HEADERS_BYTES: Final = 64 * 1024
MOST_HEADERS: Final = 200
HEADERS_S: Final = 10.0
LINGER_S: Final = 1.0
MOST_CONNECTIONS: Final = 2000  # of one process


class Connection(HttpToolsProtocol):
    """Answers 431 and closes if the headers are too large; closes if they do not arrive in time.

    Beyond MOST_CONNECTIONS a new connection gets 503 with Retry-After.
    """

    _timer: asyncio.TimerHandle | None = None  # while headers are awaited
    _unread = 0  # bytes that arrived since the last complete headers; the parser keeps a header until it ends
    _too_large = False
    _is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse(try_again(503, "The receiver has too many connections."))
        else:
            self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._unread += len(data)
        super().data_received(data)
        if self._too_large or (self._timer is not None and self._unread > HEADERS_BYTES):
            self._refuse(
                problem(
                    431,
                    f"Send at most {MOST_HEADERS} headers, and {HEADERS_BYTES} bytes with the request line.",
                )
            )

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:
            self._await_headers()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > HEADERS_BYTES or len(self.headers) > MOST_HEADERS:
            self._too_large = True  # an exception in here would be answered with 400
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._too_large:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        if not self._too_large:
            super().on_message_complete()

    def _await_headers(self) -> None:
        self._timer = self.loop.call_later(HEADERS_S, self.transport.close)

    def _stop_timer(self) -> None:
        self._unread = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, answer: Answer) -> None:
        self._stop_timer()
        self._is_refused = True
        headers = b"".join(name + b": " + value + b"\r\n" for name, value in answer.raw_headers())
        self.transport.write(
            STATUS_LINE[answer.status] + headers + b"connection: close\r\n\r\n" + answer.body
        )
        # A socket that is closed while more arrives sends a reset, and the peer may lose the answer.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.close)
