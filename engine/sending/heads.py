"""Reads the head of an answer before what follows it, so that an accepted firing counts as accepted."""

from __future__ import annotations

import re
from typing import Final

from aiohttp import ClientPayloadError
from aiohttp.client_proto import ResponseHandler

_NO_CONTENT: Final = re.compile(rb"HTTP/1\.[01] 204[ \r]")
_END: Final = b"\r\n\r\n"
_FRAMING: Final = re.compile(rb"\r\n(?:content-length:[ \t]*0*[1-9]|transfer-encoding:)", re.IGNORECASE)
_MOST_HEAD: Final = 64 * 1024  # a longer one is left to the parser, which refuses it


class HeadsFirst(ResponseHandler):
    """aiohttp's connection, but nothing that follows the head of an answer can make the head unreadable.

    aiohttp drops an answer if what came in the same packet is not valid HTTP: a wrong chunk, or a body that
    is longer than the head says. Then the firing would count as failed although the service accepted it, and
    would be sent again for a day. So the parser gets the head alone.

    An answer 204 ends with its head, whatever its headers say (RFC 9112, section 6.3), and the parser takes
    a body for the next answer. So what follows such a head is discarded, and the connection not used again.
    """

    _head = b""  # of an answer 204, as far as it arrived
    _is_over = False

    def data_received(self, data: bytes) -> None:
        data = self._received(data)
        while data:
            data = self._received(data)

    def _received(self, data: bytes) -> bytes:
        """Takes the next part. Returns what is left."""
        if self._is_over:
            return b""
        if not self._head:
            if self._payload is not None and not self._payload.is_eof():
                super().data_received(data)
                return b""
            if _NO_CONTENT.match(data) is None:
                end = data.find(_END) + len(_END)
                if end < len(_END):
                    end = len(data)
                super().data_received(data[:end])
                return data[end:] if self.exception() is None else b""
        head, end_of_head, rest = (self._head + data).partition(_END)
        if not end_of_head and len(head) <= _MOST_HEAD:
            self._head = head
            return b""
        self._head = b""
        if end_of_head and (rest or _FRAMING.search(head)):
            self._is_over = True
            self.force_close()
            rest = b""
        super().data_received(head + end_of_head + rest)
        return b""

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """The answers end here. A body that is not complete ends too: aiohttp would wait for its end."""
        super().set_exception(exc, *cause)
        payload = self._payload
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(ClientPayloadError("it is not valid HTTP"))
