"""The receiver as an ASGI app: reads a request's events, checks that they may be written, and writes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from ..engine.errors import NoRoom, NotSent, UnreachableError
from ..engine.log import log
from ..events.errors import EventError
from ..events.event import Event
from ..events.http import BatchTooLargeError, MediaTypeError
from .answers import HEALTHY, Response, joined, problem, try_again
from .batch import Batch
from .endpoint import MOST_EVENTS, Endpoint, Request
from .faults import Faults
from .grant import Grant
from .memory import Memory
from .scope import CLIENT_CERTIFICATE, NAMES, WHOLE, Whole

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
# Gets the path, the status and the number of written events of each request to an endpoint.
Observe = Callable[[str, int, int], None]

_EVENT_BYTES: Final = 2048  # what an event takes in memory beside its text, here and in the client's queue
_MOST_DIGITS: Final = 18  # of a content-length; int() raises for very long ones
_NO_WRITER: Final = "The receiver is starting or shutting down; send the same events again."
_NOT_ACKNOWLEDGED: Final = "Kafka did not acknowledge; send the same events again. A repeat counts once."
# A body up to this size is read in the event loop, which answers no other request meanwhile. That takes a few
# milliseconds at most, for a hundred usual events half a millisecond.
_INLINE_BYTES: Final = 32 * 1024


class BusWriter(Protocol):
    """Writes events to a bus: `engine.kafka.event_producer.EventProducer`."""

    async def write(self, events: Sequence[Event]) -> None: ...


@dataclass(frozen=True)
class RequestLimits:
    """What the receiver holds and waits for at most.

    body_bytes, body_s: of one request's body. held_bytes: of all requests in memory.
    """

    body_bytes: int = 1024 * 1024
    held_bytes: int = 64 * 1024 * 1024
    unproven_bytes: int = 16 * 1024 * 1024  # of held_bytes: for senders that are not authenticated yet
    body_s: float = 10.0
    events: int = MOST_EVENTS  # of one request
    attributes: int = 200  # of one event


class Receiver:
    """Writes the events that an endpoint makes of a request; GET /healthz and /readyz are probes.

    endpoints: by their path, below the path at which another app mounts this one (`root_path` of ASGI).
    has_probes: without them /healthz and /readyz do not exist.

    writer: None while the receiver starts or shuts down; requests are then refused with 503. Requests in
    memory are bounded by `limits.held_bytes`. Before its body is read, a request counts as the size of its
    headers and its content-length (without one: `limits.body_bytes`), then also with its events. Senders that
    only a signature of the body authenticates get a part, `limits.unproven_bytes`, until it is checked.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        limits: RequestLimits = RequestLimits(),
        observe: Observe = lambda _path, _status, _events: None,
        has_probes: bool = True,
    ) -> None:
        self.writer: BusWriter | None = None
        self.is_ready: Callable[[], bool] = lambda: True
        self._endpoints, self._limits, self._observe = endpoints, limits, observe
        self._memory = Memory(limits.held_bytes, limits.unproven_bytes)
        self._probes = ("/healthz", "/readyz") if has_probes else ()
        self._faults = Faults()  # why Kafka did not acknowledge
        # One thread: it shares the GIL with the event loop, which then keeps half of the time.
        self._large_bodies = ThreadPoolExecutor(1, "interlock-large-bodies")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"the receiver serves HTTP, not {scope['type']}")
        # Taken out, because it refers to the scope: only the garbage collector would find the request.
        whole: Whole | None = (scope.get("extensions") or {}).pop(WHOLE, None)
        answer = await self._answer(scope, receive, whole)
        if whole is not None and scope["method"] != "HEAD" and whole.answer(answer):
            return
        headers = [*answer.raw_headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive, whole: Whole | None) -> Response:
        root, method = scope.get("root_path", ""), scope["method"]
        path = scope["path"].removeprefix(root)
        endpoint = self._endpoints.get(path)
        if endpoint is not None:
            query, extensions = scope.get("query_string", b""), scope.get("extensions") or {}
            names = extensions[CLIENT_CERTIFICATE][NAMES] if CLIENT_CERTIFICATE in extensions else frozenset()
            request = Request(method, path, scope["headers"], query, names)
            try:
                if method == "POST":
                    answer, events = await self._take(endpoint, request, receive, whole)
                else:
                    answer, events = endpoint.answer(request), 0
            except Exception:  # noqa: BLE001  # a fault in here goes to the log, not to the sender
                log.exception("receiver: a request could not be answered")
                answer, events = try_again(500, "The receiver's log has the reason."), 0
            try:
                self._observe(path, answer.status, events)
            except Exception as error:  # noqa: BLE001  # of the metrics; the events are written
                self._faults.report(f"metrics could not be published: {error!r}")
            return answer
        if path in self._probes:
            if method not in ("GET", "HEAD"):
                return problem(405, f"Probe with GET, not {method}.", allow="GET, HEAD")
            ready = path == "/healthz" or (self.writer is not None and self.is_ready())
            detail = "The cluster does not answer, or the receiver is shutting down."
            return HEALTHY if ready else try_again(503, detail)
        return problem(404, f"There is no {scope['path'][:200]!r}: send CloudEvents to {root}/events.")

    async def _take(
        self, endpoint: Endpoint, request: Request, receive: Receive, whole: Whole | None
    ) -> tuple[Response, int]:
        """Answers a POST; also returns how many events are written."""
        grant = await endpoint.admit(request)
        if isinstance(grant, Response):
            return grant, 0
        writer, memory = self.writer, self._memory
        if writer is None:
            return try_again(503, _NO_WRITER), 0
        if b"transfer-encoding" in request.last and not _is_chunked(request):
            return problem(415, "Send the body with transfer-encoding: chunked alone, or with a length."), 0
        size = self._size_before_body(request)
        if size is None:
            return self._too_large(), 0
        unproven = size if endpoint.needs_body else 0
        if not memory.take(size, unproven):
            return self._full(), 0
        try:
            body = None if whole is None else whole.body()
            if body is None:
                body = await self._body(receive)
            if body is None or len(body) > self._limits.body_bytes:
                return self._too_large(), 0
            if not body and b"upgrade" in request.last:
                _require_body(request)
            if len(body) <= _INLINE_BYTES and b"content-encoding" not in request.last:
                events = self._events(endpoint, grant, request, body)
            else:
                loop = asyncio.get_running_loop()
                read = partial(self._events, endpoint, grant, request, body)
                events = await loop.run_in_executor(self._large_bodies, read)
            if isinstance(events, Response):
                return events, 0
            accepted = endpoint.accepted
            if isinstance(events, Batch):
                accepted = events.answer
                events = events.events
            if unproven:
                memory.give_back(0, unproven)
                unproven = 0
            if more := _size_beyond_body(events, body):
                if not memory.take(more, 0):
                    return self._full(), 0
                size += more
            await writer.write(events)
        except (EventError, TimeoutError, NotSent, UnreachableError) as error:
            return self._failed(error), 0
        finally:
            memory.give_back(size, unproven)
        return accepted, len(events)

    def _size_before_body(self, request: Request) -> int | None:
        """How many bytes a request counts before its body is read; None if the body is too large."""
        length = request.header(b"content-length") or b""
        if len(length) > _MOST_DIGITS:
            return None
        size = int(length) if length.isdigit() else self._limits.body_bytes
        if size > self._limits.body_bytes:
            return None
        for name, value in request.headers:
            size += len(name) + len(value)
        return size + _EVENT_BYTES

    def _failed(self, error: Exception) -> Response:
        """The answer if the body could not be read, or its events could not be written."""
        if isinstance(error, EventError):
            is_large, is_media_type = isinstance(error, BatchTooLargeError), isinstance(error, MediaTypeError)
            return problem(413 if is_large else 415 if is_media_type else 400, joined(error.problems))
        if isinstance(error, TimeoutError):
            detail = f"The body did not arrive within {self._limits.body_s:g} s."
            return problem(408, detail, connection="close")
        if isinstance(error, NoRoom):
            return try_again(429, str(error))
        if isinstance(error, NotSent):
            return problem(413, str(error))
        self._faults.report(str(error))
        return try_again(503, _NOT_ACKNOWLEDGED)

    def _events(
        self, endpoint: Endpoint, grant: Grant, request: Request, body: bytes
    ) -> Sequence[Event] | Batch | Response:
        """The events, if the sender may write all of them; of a `Batch` those that it may.

        Runs in a thread if the body is large.
        """
        events = endpoint.read(request, body)
        if isinstance(events, Response):
            return events
        if isinstance(events, Batch):
            return events.granted(grant)
        if len(events) > self._limits.events:
            raise BatchTooLargeError(len(events), self._limits.events)
        for event in events:
            if len(event.attributes) > self._limits.attributes:
                raise EventError(
                    f"event {event.id[:200]!r} has {len(event.attributes)} attributes; send at most"
                    f" {self._limits.attributes}"
                )
        refusals = grant.refusals(events)
        return problem(403, joined(refusals)) if refusals else events

    def _too_large(self) -> Response:
        return problem(
            413,
            f"The body is larger than {self._limits.body_bytes} bytes. Store large data elsewhere, and send a"
            " reference to it (`dataref`); let an OpenLineage client leave out large facets.",
        )

    def _full(self) -> Response:
        return try_again(429, "The receiver's memory for requests is full; send the same events again.")

    async def _body(self, receive: Receive) -> bytes | None:
        """The body; None if it is too large. Raises TimeoutError if it does not arrive in time."""
        parts: list[bytes] = []
        left = self._limits.body_bytes
        async with asyncio.timeout(self._limits.body_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise EventError("the connection ended before the body did")
                part = message.get("body", b"")
                left -= len(part)
                if left < 0:
                    return None
                parts.append(part)
                if not message.get("more_body", False):
                    return parts[0] if len(parts) == 1 else b"".join(parts)


def _is_chunked(request: Request) -> bool:
    """Whether chunks are the only transfer coding: the server decodes no other, and data stay compressed."""
    codings = [value for name, value in request.headers if name == b"transfer-encoding"]
    return b",".join(codings).strip().lower() == b"chunked"


def _require_body(request: Request) -> None:
    """Raises EventError if the request has a body that did not arrive.

    `Connection` ignores the header Upgrade. Other servers with httptools, such as Airflow's API server, take
    the body for another protocol's, and give the app an empty one.
    """
    if b"transfer-encoding" in request.last or (request.header(b"content-length") or b"0").strip(b"0"):
        raise EventError(
            "the body did not arrive, because this server takes what follows the header `upgrade` for another"
            " protocol: send the request without this header (Java's HttpClient: version(HTTP_1_1))"
        )


def _size_beyond_body(events: Sequence[Event], body: bytes) -> int:
    """How many more bytes to count for the request, now that its events are read.

    The body and one event are counted already. So the data adds only what exceeds the body, as it can after
    decompression.
    """
    size = -len(body)
    for event in events:
        size += len(event.data or b"")
    return max(size, 0) + (_EVENT_BYTES * (len(events) - 1) if events else 0)
