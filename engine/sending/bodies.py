"""Reads bodies of answers, up to a limit of bytes and of time. None of them is logged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from itertools import takewhile
from typing import Final

import aiohttp

EXCERPT_BYTES: Final = 1024  # of a refusal's body, as in Knative's dead letters
_DRAINED_BYTES: Final = 64 * 1024  # a body up to here is read to its end, to use its connection again
_SPARE_S: Final = 1.0  # how long a body is read that decides nothing
_BLANK: Final = b"***"
_HEAD: Final = 8  # the beginning of a secret is blanked too, from so many bytes on


async def excerpt(response: aiohttp.ClientResponse, secrets: Iterable[str]) -> bytes:
    """The first EXCERPT_BYTES of the body, without these secrets: a sink may repeat what it got."""
    known = [*secrets]
    most = EXCERPT_BYTES + max((len(each.encode()) for each in known), default=0)
    found = b""
    with suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(_SPARE_S):
            found = await _read(response, _DRAINED_BYTES, most)
    return blanked(found, known)[:EXCERPT_BYTES]


def blanked(text: bytes, secrets: Iterable[str]) -> bytes:
    """The text without these secrets, and without beginnings of them that have _HEAD bytes or more."""
    for secret in sorted(secrets, key=len, reverse=True):  # a long one may contain a short one
        known = secret.encode()
        at = text.find(known[:_HEAD])
        while at >= 0:
            same = takewhile(lambda pair: pair[0] == pair[1], zip(known, text[at:], strict=False))
            text = text[:at] + _BLANK + text[at + len([*same]) :]
            at = text.find(known[:_HEAD], at + len(_BLANK))
    return text


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
