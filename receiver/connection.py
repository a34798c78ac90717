"""uvicorn's HTTP/1.1 connection with bounds on size and time, and one request at a time."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from contextlib import suppress
from typing import Any, ClassVar, Final

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ..events.visible import VisibleArguments
from .answers import Response, problem, try_again
from .at_once import WholeRequest
from .certificate import names_of
from .idle import Idle
from .scope import CLIENT_CERTIFICATE, NAMES, WHOLE

HEADERS_BYTES: Final = 64 * 1024
MOST_HEADERS: Final = 200
# How long a peer may take to complete its headers, to send the rest of a body that is already answered, or to
# read an answer.
SLOW_PEER_S: Final = 10.0
LINGER_S: Final = 1.0
MOST_CONNECTIONS: Final = 2000  # of one process; fewer where it may not open so many files
# The kernel's buffer for one connection. Its default would hold megabytes for a peer that reads no answers.
_SEND_BYTES: Final = 64 * 1024
_REFUSED_AT_ONCE: Final = 200  # connections above the bound that get an answer; more are closed without one
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
_OTHER_FILES: Final = 100  # of the Kafka client, the log, and whatever Airflow opens

# uvicorn logs a warning for each malformed request, so any peer could fill the log. Its errors are logged.
# Not made by getLogger: `logging.config.dictConfig`, which Airflow calls, would reset its level.
_log = logging.Logger("uvicorn.error", logging.ERROR)
_log.parent = logging.getLogger("uvicorn.error")
_log.addFilter(VisibleArguments())

_TOO_LARGE: Final = problem(
    431, f"Send at most {MOST_HEADERS} headers, and {HEADERS_BYTES} bytes with the request line."
)
_NO_HOST: Final = problem(400, "Send the header Host once (RFC 9112, section 3.2).")


def reserve_connections() -> int:
    """Raises this process's limit of open files as far as needed and allowed.

    Returns how many connections it may hold, at most MOST_CONNECTIONS. Worker processes inherit the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = MOST_CONNECTIONS + _REFUSED_AT_ONCE + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return MOST_CONNECTIONS
    allowed = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
    if allowed > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        except (OSError, ValueError):  # some sandboxes forbid it
            allowed = soft
    return max(1, min(MOST_CONNECTIONS, allowed - _REFUSED_AT_ONCE - _OTHER_FILES))


class Connection(HttpToolsProtocol):
    """A connection that limits how much, and for how long, its peer can make this process hold.

    - Answers 431 and closes if headers, trailers or chunk extensions are too large. Trailers are discarded
      (RFC 9110, section 6.5.1).
    - Answers 400 and closes if an HTTP/1.1 request has no header Host, or a request has two (RFC 9112, 3.2).
    - Closes if headers are incomplete after SLOW_PEER_S, or a body SLOW_PEER_S after its answer.
    - Cuts a peer off that has not read its answers for SLOW_PEER_S, also if the connection is closing.
    - Ignores the header Upgrade (RFC 9110, section 7.8): the request is read as any other.
    - Takes no request before the previous one is answered. What a peer sends early (pipelining) is discarded,
      and the connection closes after the answer; RFC 9112, section 9.3.2 lets the peer send it again.
    - Beyond `most_connections`, those in a TLS handshake included, ends the connection whose next whole
      request it has awaited longest. If all wait for answers, it answers 503 with Retry-After.
    """

    most_connections = MOST_CONNECTIONS
    idle: ClassVar[Idle] = Idle()  # connections of this process
    _accepted: socket.socket | None = None  # which the transport closes
    _is_made = False  # there is a transport
    _has_place = False  # one of `most_connections`
    _timer: asyncio.TimerHandle | None = None
    _abort_timer: asyncio.TimerHandle | None = None  # runs while the peer has to read answers
    _names: frozenset[str] = frozenset()  # of the peer's certificate
    _unread = 0  # bytes received since the last complete headers, part of a body or end of a request
    _in_headers = False
    _in_body = False  # the body of `cycle`, the current request, is not complete
    _has_body = False  # a part of that body arrived
    _framing = b""  # headers that say how the body ends, which the parser has to be told again
    _is_told = False  # it is told them now
    _is_ending = False  # nothing that arrives is read any more
    _refusal: Response | None = None  # the answer to headers that are not taken

    def accepted(self, sock: socket.socket) -> None:
        """Counts the connection. connection_made follows, with TLS after the handshake, or `not_made`."""
        self._accepted = sock
        self.connections.add(self)
        if not self._take_place() and self._is_crowded():
            self.give_way()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._is_made = True
        self.logger = _log
        if (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        self._names = names_of(transport.get_extra_info("peercert"))
        if self._is_ending:
            transport.abort()
        elif self._has_place or self._take_place():
            self._start_timer()
        elif self._is_crowded():
            self.give_way()
        else:
            self._refuse(try_again(503, "The receiver has too many connections."))
            self.idle.discard(self)  # it has no place that another could take

    def not_made(self) -> None:
        """Takes a connection out of the count that ended before connection_made."""
        if not self._is_made:
            self.connections.discard(self)
            self.idle.discard(self)

    def give_way(self) -> None:
        """Ends the connection at once."""
        self._is_ending = True
        if self._is_made:
            self.transport.abort()
        elif self._accepted is not None:
            with suppress(OSError):  # it is closed already
                self._accepted.shutdown(socket.SHUT_RDWR)  # ends the handshake

    def connection_lost(self, exc: Exception | None) -> None:
        self.idle.discard(self)
        self._stop_timer()
        self._stop_abort_timer()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # uvicorn leaves it after a reset: it keeps the request for 75 s

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_abort_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_abort_timer()

    def shutdown(self) -> None:
        if not self._is_made:
            self.give_way()
            return
        super().shutdown()
        self._bound_close()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._bound_close()

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        self._unread += len(data)
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.send_400_response("")
        self._check_bounds()

    def _parse(self, data: bytes) -> None:
        """Parses what arrived. Raises HttpParserError.

        At the header Upgrade the parser takes what follows the headers, even a body, for another protocol.
        """
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                if self._is_ending or self._refusal or self.scope["method"] == "CONNECT":
                    return
                data = data[upgrade.args[0] :]
                framing, self._framing = self._framing, b""
                if framing:
                    self._is_told = True
                    self.parser.feed_data(b"POST / HTTP/1.1\r\n" + framing + b"\r\n")
                    self._is_told = False

    def _check_bounds(self) -> None:
        if self._is_ending:
            return
        if self._refusal or self._unread > HEADERS_BYTES:
            self._refuse(self._refusal or _TOO_LARGE)
        elif not self._is_answering() and (self._in_headers or self.timeout_keep_alive_task is None):
            # Headers are incomplete, or an empty line has stopped uvicorn's keep-alive timer.
            self._start_timer()

    def on_message_begin(self) -> None:
        if self._is_told:
            return
        if self._is_answering():
            self._end_after_answer()
        elif not self._refusal:
            self._in_headers = True
            super().on_message_begin()
            if self._names:
                self.scope["extensions"] = {CLIENT_CERTIFICATE: {NAMES: self._names}}

    def on_url(self, url: bytes) -> None:
        if self._in_headers:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_headers:  # else a trailer
            # As uvicorn's method does: calling it for each header takes longer than this.
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if not self._in_headers:
            return
        self._in_headers = False
        size, hosts = len(self.url), 0
        for name, value in self.headers:
            size += len(name) + len(value)
            hosts += name == b"host"
        if size > HEADERS_BYTES or len(self.headers) > MOST_HEADERS:
            self._refusal = _TOO_LARGE  # an exception in here would be answered with 400
            return
        if hosts != 1 and (hosts or self.parser.get_http_version() != "1.0"):
            self._refusal = _NO_HOST
            return
        super().on_headers_complete()
        if self.parser.should_upgrade() and self.scope["method"] != "CONNECT":
            self._ignore_upgrade()
        self._stop_timer()
        self._unread = 0
        self._in_body, self._has_body = True, False

    def _ignore_upgrade(self) -> None:
        self.headers[:] = [each for each in self.headers if each[0] != b"upgrade"]
        self._framing = b"".join(
            name + b": " + value + b"\r\n" for name, value in self.headers if name in _FRAMING
        )

    def on_body(self, body: bytes) -> None:
        if self._in_body and not self._is_ending:
            self._unread, self._has_body = 0, True
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._in_body or self._is_ending or self._framing:
            return
        self._in_body = False
        self._unread = 0
        if self._is_answering():
            self.idle.discard(self)
            extensions: dict[str, Any] = self.scope.setdefault("extensions", {})
            extensions[WHOLE] = WholeRequest(self.cycle)
            super().on_message_complete()
        else:
            self._stop_timer()
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.idle.add(self)
        self._bound_close()
        if not self._in_body or self.transport.is_closing():
            return
        if self.expect_100_continue and not self._has_body:
            self._close()  # the peer does not send a body that is refused already
        else:
            # Closing now would reset the connection, and a peer that still sends may lose the answer.
            self._start_timer()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Answers a request that is not valid HTTP."""
        if not self._is_ending:
            self._refuse(problem(400, "The request is not valid HTTP/1.1."))

    def _take_place(self) -> bool:
        if self.idle.make_room(self.connections, self.most_connections):
            self.idle.add(self)
            self._has_place = True
        return self._has_place

    def _is_crowded(self) -> bool:
        """Whether so many are refused at once that more get no answer."""
        return len(self.connections) > self.most_connections + _REFUSED_AT_ONCE

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(SLOW_PEER_S, self._close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_after_answer(self) -> None:
        self._is_ending = True
        self.cycle.keep_alive = False

    def _refuse(self, answer: Response) -> None:
        """Closes the connection after this answer, or the app's if it is answering a complete request."""
        if self._is_answering() and not self._in_body:
            self._end_after_answer()
            return
        self._is_ending = True
        self._stop_timer()
        self._unset_keepalive_if_required()
        is_answered = self._in_body and self.cycle.response_started
        if self._in_body and not self.cycle.response_complete:
            # The app stops waiting for the body, and its answer is not sent.
            self.cycle.disconnected = True
            self.cycle.waiting_for_100_continue = False
            self.cycle.message_event.set()
        if not is_answered:
            head = STATUS_LINE[answer.status] + answer.lines
            self.transport.write(head + b"connection: close\r\n\r\n" + answer.body)
        # A socket that is closed while more arrives sends a reset, and the peer may lose the answer.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_S, self._close)

    def _close(self) -> None:
        self.transport.close()
        self._bound_close()

    def _bound_close(self) -> None:
        """Bounds how long a closing transport waits for its peer to read what is left."""
        if self.transport.is_closing():
            self._start_abort_timer()

    def _start_abort_timer(self) -> None:
        if self._abort_timer is None:
            self._abort_timer = self.loop.call_later(SLOW_PEER_S, self.transport.abort)

    def _stop_abort_timer(self) -> None:
        if self._abort_timer is not None:
            self._abort_timer.cancel()
            self._abort_timer = None
