"""Answers 204 of services that send a body nevertheless."""

from __future__ import annotations

import re
from typing import Final

from aiohttp.client_proto import ResponseHandler

_NO_CONTENT: Final = re.compile(rb"HTTP/1\.[01] 204[ \r]")
_END: Final = b"\r\n\r\n"
_FRAMING: Final = re.compile(rb"\r\n(?:content-length:[ \t]*0*[1-9]|transfer-encoding:)", re.IGNORECASE)
_MOST_HEAD: Final = 64 * 1024  # a longer one is left to the parser, which refuses it


class BodilessAnswers(ResponseHandler):
    """aiohttp's connection, but what follows the head of an answer 204 is discarded.

    Such an answer ends with its head, whatever its headers say (RFC 9112, section 6.3), and so the parser
    takes a body for the next answer, which is not valid HTTP. Then the firing would count as failed although
    the service accepted it, and would be sent again for a day. The connection is not used again.
    """

    _head = b""  # of an answer 204, as far as it arrived
    _is_over = False

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if not self._head and not self._begins_204(data):
            super().data_received(data)
            return
        head, end, rest = (self._head + data).partition(_END)
        if not end and len(head) <= _MOST_HEAD:
            self._head = head
            return
        self._head = b""
        if end and (rest or _FRAMING.search(head)):
            self._is_over = True
            self.force_close()
            rest = b""
        super().data_received(head + end + rest)

    def _begins_204(self, data: bytes) -> bool:
        is_in_body = self._payload is not None and not self._payload.is_eof()
        return not is_in_body and _NO_CONTENT.match(data) is not None
