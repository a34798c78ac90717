"""Reads bodies of answers, up to a limit of bytes and of time. None of them is logged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from html import escape
from itertools import takewhile
from typing import Final
from urllib.parse import quote, quote_plus

import aiohttp

EXCERPT_BYTES: Final = 1024  # of a refusal's body, as in Knative's dead letters
_DRAINED_BYTES: Final = 64 * 1024  # a body up to here is read to its end, to use its connection again
_SPARE_S: Final = 1.0  # the most time for reading a body that decides nothing
_BLANK: Final = b"***"
_HEAD: Final = 8  # bytes: a beginning of a secret that has as many is blanked too


async def excerpt(response: aiohttp.ClientResponse, secrets: Iterable[str]) -> bytes:
    """The first EXCERPT_BYTES of the body, without these secrets: a sink may repeat what it got."""
    known = _as_repeated(secrets)
    most = EXCERPT_BYTES + max(map(len, known), default=0)
    found = b""
    with suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(_SPARE_S):
            found = await _read(response, _DRAINED_BYTES, most)
    return _blanked(found, known)[:EXCERPT_BYTES]


def blanked(text: bytes, secrets: Iterable[str]) -> bytes:
    """The text without these secrets, as they are sent and as JSON, HTML or a URL escapes them.

    Beginnings of them that have _HEAD bytes or more are blanked too.
    """
    return _blanked(text, _as_repeated(secrets))


def _blanked(text: bytes, known: Iterable[bytes]) -> bytes:
    # All places are found before one is blanked: secrets may contain one another, or begin alike.
    found, end = bytearray(), 0
    for start, stop in sorted(place for each in known for place in _places(text, each)):
        if start >= end:
            found += text[end:start] + _BLANK
        end = max(end, stop)
    return bytes(found + text[end:])


def _places(text: bytes, known: bytes) -> Iterator[tuple[int, int]]:
    """Where the text has `known` or a beginning of it."""
    at = text.find(known[:_HEAD])
    while at >= 0:
        same = takewhile(lambda pair: pair[0] == pair[1], zip(known, text[at:], strict=False))
        end = at + len([*same])
        yield at, end
        at = text.find(known[:_HEAD], end)


def _as_repeated(secrets: Iterable[str]) -> set[bytes]:
    """The secrets in each form in which a sink may repeat them."""
    return {
        form.encode()
        for each in secrets
        if each
        for form in (each, *_in_json(each), *_in_html(each), *_in_url(each))
    }


def _in_json(text: str) -> Iterator[str]:
    for is_ascii in (True, False):
        form = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
        yield form
        yield form.replace("/", "\\/")  # PHP
        yield form.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")  # Go


def _in_html(text: str) -> Iterator[str]:
    yield escape(text, quote=False)
    form = escape(text)
    yield form
    yield form.replace("&#x27;", "&#039;")  # PHP
    yield form.replace("&#x27;", "&#39;")
    yield form.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")  # Go, Jinja


def _in_url(text: str) -> Iterator[str]:
    yield quote_plus(text)
    for unescaped in ("", "/", "!'()*"):  # the last is JavaScript's
        yield quote(text, safe=unescaped)


async def drain(response: aiohttp.ClientResponse) -> None:
    """Read a body that nobody needs, to use its connection again.

    One that is too long or slow is not read to its end, and its connection is closed.
    """
    if not response.content.at_eof():
        await excerpt(response, ())


async def whole(response: aiohttp.ClientResponse, most: int) -> bytes | None:
    """The body; None if it is longer than `most`. Raises what aiohttp raises."""
    if (response.content_length or 0) > most:
        return None
    found = await _read(response, most + 1, most + 1)
    return found if len(found) <= most else None


async def _read(response: aiohttp.ClientResponse, most: int, kept: int) -> bytes:
    """Up to `most` bytes are read, and up to `kept` of them returned."""
    parts: list[bytes] = []
    while most > 0 and (part := await response.content.read(most)):
        most -= len(part)
        parts.append(part[:kept])
        kept -= len(parts[-1])
    return b"".join(parts)
