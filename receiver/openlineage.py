"""The endpoints of OpenLineage's HTTP API: a run, job or dataset event, or a batch of them."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from typing import Final

from ..events.content import is_json
from ..events.errors import EventError
from ..events.event import Event
from ..events.http import MediaTypeError
from ..events.openlineage import from_openlineage, from_openlineage_batch
from ..events.sizes import MAX_EVENT_BYTES
from .answers import Response, joined, problem
from .batch import Batch
from .endpoint import MOST_EVENTS, Endpoint, Request, Senders
from .grant import Grant

PATH: Final = "/api/v1/lineage"
BATCH_PATH: Final = f"{PATH}/batch"
_GZIP: Final = 16 + zlib.MAX_WBITS
_CHARSET: Final = re.compile(rb"charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)


class Lineage:
    """Takes the events that the sender of the request may write.

    read: the events in a body.
    """

    accepted = Response(200)
    needs_body = False

    def __init__(self, senders: Senders, read: Callable[[bytes], Sequence[Event] | Batch]) -> None:
        self._senders, self._read = senders, read

    async def admit(self, request: Request) -> Grant | Response:
        return await self._senders.admit(request)

    def read(self, request: Request, body: bytes) -> Sequence[Event] | Batch | Response:
        stated = request.header(b"content-type")
        charset = _CHARSET.search(stated or b"")
        if stated is None and b"content-type" in request.last:
            raise MediaTypeError("header content-type appears twice")
        if stated is not None and not is_json(stated.decode("latin-1")):
            raise MediaTypeError("send the header content-type: application/json")
        if charset is not None and charset[1].lower() not in (b"utf-8", b"utf8", b"us-ascii"):
            raise MediaTypeError("send the JSON in UTF-8")
        encoding = b",".join(value for name, value in request.headers if name == b"content-encoding")
        if encoding.strip().lower() in (b"gzip", b"x-gzip"):
            plain = _decompressed(body)
            if plain is None:
                detail = f"Uncompressed, the body is larger than {MAX_EVENT_BYTES} bytes."
                return problem(413, f"{detail} Let the client leave out large facets.")
            body = plain
        elif encoding.strip().lower() not in (b"", b"identity"):
            raise MediaTypeError("send the body with content-encoding: gzip, or without compression")
        return self._read(body)

    def answer(self, request: Request) -> Response:
        return problem(405, f"Send OpenLineage events with POST, not {request.method}.", allow="POST")


def endpoints(senders: Senders) -> dict[str, Endpoint]:
    """The endpoints by their paths."""
    return {
        PATH: Lineage(senders, lambda body: [from_openlineage(body)]),
        BATCH_PATH: Lineage(senders, _batch),
    }


def _batch(body: bytes) -> Batch:
    events, wrong = from_openlineage_batch(body, MOST_EVENTS)
    return Batch(events, {index: joined(problems) for index, problems in wrong.items()})


def _decompressed(body: bytes) -> bytes | None:
    """The content of a gzip body; None if it is larger than an event may be. Raises EventError."""
    stream = zlib.decompressobj(_GZIP)
    try:
        plain = stream.decompress(body, MAX_EVENT_BYTES + 1)
    except zlib.error as error:
        raise EventError(f"the body is not gzip: {error}") from None
    if len(plain) > MAX_EVENT_BYTES:
        return None
    if not stream.eof or stream.unused_data:
        raise EventError("the body is not one complete gzip stream")
    return plain
