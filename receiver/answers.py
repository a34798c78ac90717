"""The receiver's answers: 202, or a problem document (RFC 9457) that says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus

import msgspec

RETRY_AFTER_S = 1
_SHOWN = 2000  # characters of a detail


@dataclass(frozen=True)
class Response:
    """A status, the body, and headers beside content-type and content-length."""

    status: int
    body: bytes = b""
    content_type: str = "application/problem+json"
    headers: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def raw_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """The headers in bytes. ASGI takes them as a list, which middleware may change."""
        headers = dict(self.headers)
        if self.status != HTTPStatus.NO_CONTENT:  # RFC 9110, section 8.6
            headers["content-length"] = str(len(self.body))
        if self.body:
            headers["content-type"] = self.content_type
        return tuple((name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items())

    @cached_property
    def lines(self) -> bytes:
        """The headers as HTTP/1.1 has them."""
        return header_lines(self.raw_headers)


def header_lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join(name + b": " + value + b"\r\n" for name, value in headers)


def problem(status: int, detail: str, **headers: str) -> Response:
    """An answer with a problem document. headers: written with underscores for dashes."""
    title = HTTPStatus(status).phrase
    body = msgspec.json.encode({"type": "about:blank", "title": title, "status": status, "detail": detail})
    return Response(status, body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def try_again(status: int, detail: str) -> Response:
    """A problem with Retry-After: the same request may succeed later."""
    return problem(status, detail, retry_after=str(RETRY_AFTER_S))


ACCEPTED = Response(202)
HEALTHY = Response(200, b"ok\n", "text/plain")


def joined(problems: Iterable[str], most: int = _SHOWN) -> str:
    """The problems as one text, which is cut to `most` characters."""
    text = "; ".join(problems)
    return text if len(text) <= most else f"{text[:most]}..."
