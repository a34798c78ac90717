"""Answers a supervisor's probes over HTTP, in threads of its own: also while the loops hang."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from time import sleep
from typing import Any, Final, Protocol, Self

from ..errors import ConfigError
from ..log import log

# Each connection has a thread, and its requests are answered at once: more than a few are not probes.
MOST_OPEN: Final = 16
REQUEST_S: Final = 5.0
AGAIN_S: Final = 0.1  # after a connection could not be accepted
NOT_READY: Final = "Not a member of its group yet, or its partitions are not recovered. The log says why."


class Probed(Protocol):
    """What probes ask, as `Loops` answers it. Neither may block."""

    @property
    def problem(self) -> str | None:
        """Why the process should be restarted; None if it need not."""

    @property
    def is_ready(self) -> bool: ...


class Probes:
    """Serves GET /healthz and /readyz inside the `with` block; whoever reaches the port may ask.

    /healthz answers 200, or 503 if the process should be restarted; /readyz answers 200 if `is_ready`, else
    503. The texts contain no data. Raises ConfigError if it cannot listen there.
    """

    def __init__(self, probed: Probed, host: str, port: int) -> None:
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            self._server = _Server(probed, host, port)
        except (OSError, UnicodeError) as error:  # the latter for what no host name can be, such as "a..b"
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"Probes cannot be served on {shown}: {reason}. Choose another --probe-port or --probe-host."
            ) from None
        self._url = f"http://{shown}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="interlock-probes", daemon=True).start()
        log.info("Probes are answered on %s/healthz and %s/readyz.", self._url, self._url)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingMixIn, TCPServer):
    # Not http.server's, which looks its own name up in the DNS before it listens.
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = MOST_OPEN

    def __init__(self, probed: Probed, host: str, port: int) -> None:
        self.probed = probed
        self._open: dict[socket.socket, None] = {}  # in the order in which they came
        self._lock = threading.Lock()
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, _, _, _, address = found[0]
        super().__init__(address, _Handler)  # type: ignore[arg-type]  # IPv6 has four members

    def get_request(self) -> Any:
        """Accept a connection. While files are missing, `serve_forever` would try again without a pause."""
        try:
            return super().get_request()
        except OSError:
            sleep(AGAIN_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a connection. If there are too many, end the oldest one, not the one that may be a probe."""
        with self._lock:
            self._open[request] = None
            oldest = next(iter(self._open)) if len(self._open) > MOST_OPEN else None
            if oldest is not None:
                del self._open[oldest]
        if oldest is not None:
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        """A client that goes away, or a thread that cannot be started: the next probe follows."""
        log.debug("A probe was not answered.", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_S

    def do_GET(self) -> None:
        probed, path = self.server.probed, self.path.partition("?")[0]
        if path == "/healthz":
            problem = probed.problem
        elif path == "/readyz":
            problem = None if probed.is_ready else NOT_READY
        else:
            self._answer(404, "There are /healthz and /readyz.")
            return
        self._answer(200 if problem is None else 503, problem or "ok")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, status: int, text: str) -> None:
        body = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def version_string(self) -> str:
        return "interlock"  # not Python's version

    def log_message(self, *_: object) -> None:
        """Probes come every few seconds: none is logged."""
