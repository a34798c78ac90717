"""Bodies of answers, read up to a bound of bytes and time. None of them is logged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import aiohttp

EXCERPT_BYTES: Final = 1024  # of a refusal's body, as in Knative's dead letters
_DRAINED_BYTES: Final = 64 * 1024  # a body up to here is read to its end, to use its connection again
_SPARE_S: Final = 1.0  # for a body that changes nothing
_BLANK: Final = b"***"


async def excerpt(response: aiohttp.ClientResponse, secrets: Iterable[str]) -> bytes:
    """The begin of the body, without these secrets: a sink may repeat what it got."""
    known = [each.encode() for each in secrets]
    most = EXCERPT_BYTES + max(map(len, known), default=0)  # a secret that begins in there is whole
    found = b""
    with suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(_SPARE_S):
            found = await _read(response, _DRAINED_BYTES, most)
    for each in known:
        found = found.replace(each, _BLANK)
    return found[:EXCERPT_BYTES]


async def drain(response: aiohttp.ClientResponse) -> None:
    """Read a body that nobody needs. What is longer, or slow, is left, and its connection ends."""
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
