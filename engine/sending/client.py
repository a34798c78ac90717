"""POST requests over the connections of one sink."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, cast

import aiohttp
from multidict import CIMultiDict, istr
from yarl import URL

from .connector import CONNECT_S, Connector, RequestProgress, request_progress
from .heads import HeadsFirst

# Of an answer's status line, and of each of its headers: a policy for browsers can have more than aiohttp's
# 8 KiB. A delivery whose answer cannot be read counts as failed, and would be made again for a day.
HEAD_BYTES: Final = 32 * 1024
_NONE: Final[dict[istr, str]] = {}
_HEADERS: Final = {"User-Agent": "airflow-interlock", "Accept-Encoding": "identity"}
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=CONNECT_S)
_TYPE: Final = "Content-Type"


def own_headers(more: Iterable[tuple[str, str]] = ()) -> CIMultiDict[str]:
    """The headers of each request, and `more`, which replace them."""
    headers = CIMultiDict(_HEADERS)
    for name, text in more:
        headers[name] = text
    return headers


class _Request(aiohttp.ClientRequest):
    """A request with no other headers than it is given, and those that HTTP requires."""

    DEFAULT_HEADERS = _NONE


class SinkClient:
    """Makes requests over connections of its own. For the running loop. Close it.

    aiohttp's `ClientSession.post` also reads cookies, proxies and `.netrc`, follows redirects, merges headers
    and sets timers. A delivery needs none of this, and it is a third of what a request costs. So this class
    does what is left of it, with aiohttp's own requests, connections and answers.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._session = aiohttp.ClientSession(connector=connector)  # each request of aiohttp belongs to one
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        await self._session.close()

    async def post(
        self, url: URL, body: object, headers: CIMultiDict[str], progress: RequestProgress
    ) -> aiohttp.ClientResponse:
        """The answer, once its head is read: use it as a context manager. Redirects are answers too.

        body: bytes, or a file. headers: see `own_headers`. The body of the answer is not decompressed. Raises
        what aiohttp raises; `progress` says how far it got.
        """
        request_progress.set(progress)
        request = _Request(
            "POST",
            url,
            headers=headers,
            skip_auto_headers=None if _TYPE in headers else (_TYPE,),
            data=body,
            loop=self._loop,
            session=self._session,
        )
        connection = await self._connector.connect(request, [], _TIMEOUT)
        progress.connected = True
        try:
            answers = cast("HeadsFirst", connection.protocol)  # None only after it was closed
            answers.set_response_params(
                read_until_eof=True,
                auto_decompress=False,
                max_line_size=HEAD_BYTES,
                max_field_size=HEAD_BYTES,
            )
            response = await request.send(connection)
            try:
                return await response.start(connection)
            except BaseException:
                response.close()
                raise
        except BaseException:
            connection.close()
            raise
