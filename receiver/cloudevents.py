"""The endpoint /events: CloudEvents in the modes of the HTTP binding."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any, Final

from ..events.event import Event
from ..events.http import MediaTypeError, decode
from .answers import ACCEPTED, Response, problem
from .endpoint import MOST_EVENTS, Request, Senders
from .grant import Grant
from .handshake import answer_options

PATH: Final = "/events"


class CloudEvents:
    """Takes the events that the sender of the request may write.

    origins: senders that OPTIONS allows to send here; `*` is any.
    """

    accepted = ACCEPTED
    needs_body = False

    def __init__(self, senders: Senders, origins: Iterable[str] = ()) -> None:
        self._senders, self._origins = senders, frozenset(each.lower() for each in origins)

    def admit(self, request: Request) -> Coroutine[Any, Any, Grant | Response]:
        return self._senders.admit(request)

    def read(self, request: Request, body: bytes) -> list[Event]:
        if b"content-encoding" in request.last:
            for name, value in request.headers:
                if name == b"content-encoding" and value.lower() != b"identity":
                    raise MediaTypeError("send the body without content-encoding")
        return decode(request.headers, body, MOST_EVENTS)

    def answer(self, request: Request) -> Response:
        if self._origins and request.method == "OPTIONS":
            return answer_options(request, self._origins)
        allow = "POST, OPTIONS" if self._origins else "POST"
        return problem(405, f"Send events with POST, not {request.method}.", allow=allow)
