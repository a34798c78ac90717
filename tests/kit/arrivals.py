"""A sink on loopback that a test controls, and deliveries to it by plain threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from interlock.engine.config import BusConfig
from interlock.engine.delivery.answers import Answer
from interlock.engine.delivery.posts import Attempt, Ended

SEQUENCE, LANE, FIRING = "ce-interlocksequence", "ce-subject", "ce-id"


class Arrival(NamedTuple):
    """A delivery as it arrived at the sink. sequence: the offset of the firing."""

    firing: str
    lane: str
    sequence: int


class Sink:
    """Answers 202 to everything; `statuses`: to a lane. While it `holds` deliveries, it answers none."""

    def __init__(self) -> None:
        self.arrived: list[Arrival] = []
        self.statuses: dict[str, int] = {}
        self._released = threading.Event()
        self._released.set()
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                arrival = Arrival(self.headers[FIRING], self.headers[LANE], int(self.headers[SEQUENCE]))
                sink.arrived.append(arrival)
                sink._released.wait(60)
                self.send_response(sink.statuses.get(arrival.lane, 202))
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """A deliverer that is killed breaks its connections."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def hold(self) -> None:
        self._released.clear()

    def release(self) -> None:
        self._released.set()

    @property
    def firings(self) -> list[str]:
        return [arrival.firing for arrival in self.arrived]

    def assert_in_order(self) -> None:
        """No lane ever went back: each sequence is that of the arrival before it in its lane, or higher."""
        last: dict[str, int] = {}
        for arrival in [*self.arrived]:
            assert arrival.sequence >= last.get(arrival.lane, -1), self.arrived
            last[arrival.lane] = arrival.sequence

    @contextmanager
    def running(self) -> Iterator[Self]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.release()
            self._server.shutdown()
            self._server.server_close()
            thread.join(10)


class ThreadPosts:
    """`delivery.posts.Posts`: a thread for each delivery. A sink's connection is its address."""

    def __init__(self, config: BusConfig, on_ended: Callable[[], None]) -> None:
        self._on_ended = on_ended
        self._ended: deque[Ended] = deque()
        self._pool = ThreadPoolExecutor(64)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def start(self, attempt: Attempt) -> None:
        self._pool.submit(self._post, attempt)

    def ended(self) -> list[Ended]:
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def _post(self, attempt: Attempt) -> None:
        self._ended.append(Ended(attempt.number, self._answer(attempt)))
        self._on_ended()

    def _answer(self, attempt: Attempt) -> Answer:
        firing = attempt.firing
        headers = {
            FIRING: firing.key.partition(b"\0")[2].decode(),
            LANE: firing.by_key,
            SEQUENCE: str(firing.record.offset),
        }
        address = urlsplit(attempt.sink.connection)
        connection = HTTPConnection(
            address.hostname or "", address.port, timeout=attempt.sink.retry.timeout_s
        )
        try:
            connection.connect()
        except OSError as e:
            return Answer(None, str(e), connected=False)
        try:
            connection.request("POST", attempt.sink.path or "/", firing.record.value, headers)
            return Answer(connection.getresponse().status)
        except OSError as e:
            return Answer(None, str(e))
        finally:
            connection.close()
