"""Access tokens of OAuth 2 client credentials: fetched, kept until they expire."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable
from time import monotonic
from typing import Final
from urllib.parse import quote_plus, urlencode

import msgspec
from multidict import CIMultiDict
from yarl import URL

from ..records.codec import UNREADABLE
from .bodies import whole
from .client import SinkClient, own_headers
from .connector import RequestProgress
from .failures import failure
from .target import ClientCredentials

FETCH_S: Final = 10.0
MOST_BYTES: Final = 64 * 1024
UNSTATED_S: Final = 300.0  # how long a token is used if its answer does not say when it expires
EARLY_S: Final = 30.0  # the next one is fetched so long before it expires; for a short-lived one, a tenth
_ERROR: Final = re.compile(r"[a-z_]{1,40}")
_TOKEN: Final = re.compile(r"[!-~]{1,16384}")


class _Answer(msgspec.Struct):
    access_token: str
    token_type: str = "Bearer"  # noqa: S105  # the name of a kind
    expires_in: float | str | None = None


class _Refusal(msgspec.Struct):
    error: str = ""


class TokenError(Exception):
    """There is no token. The text has no secret."""


class SinkTokens:
    """The tokens of one sink. For the tasks of one event loop."""

    def __init__(
        self,
        credentials: ClientCredentials,
        client: SinkClient,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._credentials, self._client, self._now = credentials, client, now
        self._url = URL(credentials.token_url)
        self._token, self._until = "", 0.0
        self._task: asyncio.Task[str] | None = None

    async def get(self) -> str:
        """A token; all that wait share one request. Raises TokenError."""
        if self._token and self._now() < self._until:
            return self._token
        if self._task is None:
            self._task = asyncio.create_task(self._fetch())
            self._task.add_done_callback(self._over)
        return await asyncio.shield(self._task)

    def drop(self, token: str) -> None:
        """The sink does not accept this token: fetch another one."""
        if token == self._token:
            self._token = ""

    def _over(self, task: asyncio.Task[str]) -> None:
        self._task = None
        if not task.cancelled():
            task.exception()  # those that wait get it from `get`; asyncio must not log it if nobody waits

    async def _fetch(self) -> str:
        headers, body = self._request()
        progress = RequestProgress()
        try:
            async with (
                asyncio.timeout(FETCH_S),
                await self._client.post(self._url, body, headers, progress) as response,
            ):
                found = await whole(response, MOST_BYTES)
                status = response.status
        except Exception as e:  # noqa: BLE001  # of any kind: no token
            raise TokenError(self._text(failure(e, progress, FETCH_S).text)) from None
        return self._keep(status, found or b"")

    def _request(self) -> tuple[CIMultiDict[str], bytes]:
        own = self._credentials
        form = {"grant_type": "client_credentials", "scope": own.scope, "audience": own.audience}
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        if own.in_body:
            form |= {"client_id": own.client_id, "client_secret": own.client_secret}
        else:  # RFC 6749, section 2.3.1: both are encoded as in a form first
            pair = f"{quote_plus(own.client_id)}:{quote_plus(own.client_secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"
        body = urlencode({name: text for name, text in form.items() if text})
        return own_headers(headers.items()), body.encode()

    def _keep(self, status: int, body: bytes) -> str:
        """Keep the token of this answer, and return it. Raises TokenError."""
        if status != 200:
            raise TokenError(self._text(f"it answers HTTP {status}{_reason(body)}"))
        try:
            answer = msgspec.json.decode(body, type=_Answer)
            lasts = UNSTATED_S if answer.expires_in is None else float(answer.expires_in)
        except (*UNREADABLE, ValueError):  # ValueError: of float()
            raise TokenError(self._text("its answer has no access_token in JSON")) from None
        if answer.token_type.lower() != "bearer" or not _TOKEN.fullmatch(answer.access_token):
            raise TokenError(self._text("its token is not a bearer token"))
        self._token = answer.access_token
        self._until = self._now() + lasts - min(EARLY_S, lasts / 10)
        return self._token

    def _text(self, reason: str) -> str:
        return f"no token from {self._url.host}: {reason}"


def _reason(body: bytes) -> str:
    """OAuth's error code, as ` (invalid_client)`. Anything else in the answer may be a secret."""
    try:
        code = msgspec.json.decode(body, type=_Refusal).error
    except UNREADABLE:
        return ""
    return f" ({code})" if _ERROR.fullmatch(code) else ""
