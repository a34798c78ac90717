"""Asks a receiver without a server, and keeps what it wrote."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from interlock.events import Event
from interlock.receiver.app import Receiver
from interlock.receiver.scope import CLIENT_CERTIFICATE, NAMES

BINARY = [(b"ce-specversion", b"1.0"), (b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t")]
BATCH = (b"content-type", b"application/cloudevents-batch+json")


class Bus:
    """What a receiver wrote, or the error that it gets."""

    def __init__(self, error: Exception | None = None) -> None:
        self.events: list[Event] = []
        self.may_write = asyncio.Event()
        self.may_write.set()
        self._error = error

    async def write(self, events: list[Event]) -> None:
        await self.may_write.wait()
        if self._error:
            raise self._error
        self.events += events


class Answered:
    """An answer: status, headers and body; `detail` is that of its problem document."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.status: int = messages[0]["status"]
        self.headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
        self.body: bytes = messages[1]["body"]

    @property
    def detail(self) -> str:
        assert self.headers["content-type"] == "application/problem+json"
        form = json.loads(self.body)
        assert form["status"] == self.status
        assert form["title"]
        return str(form["detail"])


async def ask(
    receiver: Receiver,
    headers: list[tuple[bytes, bytes]] = BINARY,
    body: bytes | list[bytes] = b"",
    path: str = "/events",
    method: str = "POST",
    names: frozenset[str] = frozenset(),
) -> Answered:
    """Sends a request, a body in several parts if it is a list. names: of the client certificate."""
    parts = [body] if isinstance(body, bytes) else body
    left = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    left[-1]["more_body"] = False
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if left:
            return left.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    scope = {"type": "http", "path": path, "method": method, "headers": headers}
    await receiver({**scope, "extensions": {CLIENT_CERTIFICATE: {NAMES: names}}}, receive, send)
    return Answered(messages)
