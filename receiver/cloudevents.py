"""The endpoint /events: CloudEvents in the modes of the HTTP binding."""

from __future__ import annotations

from typing import Final

from ..events.event import Event
from ..events.http import decode
from .answers import ACCEPTED, Answer, problem
from .credentials import Credentials, Grant
from .endpoint import MOST_EVENTS, Request

PATH: Final = "/events"


class CloudEvents:
    """Takes the events that the credential of the request may write."""

    accepted = ACCEPTED

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    async def admit(self, request: Request) -> Grant | Answer:
        return self._credentials.admit(request.header(b"authorization"))

    def read(self, request: Request, body: bytes) -> list[Event]:
        return decode(request.headers, body, MOST_EVENTS)

    def answer(self, request: Request) -> Answer:
        return problem(405, f"Send events with POST, not {request.method}.", allow="POST")
