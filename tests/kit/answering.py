"""An HTTP server as small as a test needs it."""

from __future__ import annotations

import ssl
import threading
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes


class Answering:
    """Answers POST on a free `port` of 127.0.0.1, to whatever path; as a context manager it serves.

    tls: the TLS context with its certificate; None: without TLS.
    """

    def __init__(self, name: str, tls: ssl.SSLContext | None = None) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, name=name)

    @property
    def port(self) -> int:
        return self._server.server_port

    def answer(self, headers: Message, body: bytes) -> Answer:
        """Returns the response to one request; called in a thread of its own."""
        raise NotImplementedError

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answering = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer = answering.answer(self.headers, body)
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.content_type)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_: object) -> None:
                """Logs nothing: tests read requests and responses."""

        return Handler

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
