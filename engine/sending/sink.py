"""One sink: its connections, and the requests of its deliveries."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from io import BytesIO
from typing import Final

import aiohttp

from ...events.tracing import Carrier
from ..bus import Output
from ..delivery.answers import Answer, retry_after
from ..delivery.shown_path import shown_path
from ..delivery.sinks import SinkRecord
from .bodies import blanked, drain, excerpt, whole
from .client import SinkClient, own_headers
from .connector import RequestProgress
from .content import REPLY_ASKED, Sendable, trace_headers
from .deadlines import Deadlines
from .failures import failure, free_frames
from .replies import MOST_BYTES, ReplyError, is_compressed, is_reply, read_reply
from .spans import DeliverySpans
from .target import ClientCredentials
from .targets import Resolved
from .tokens import SinkTokens, TokenError

_REASON_CHARS: Final = 400
_WHOLE_BYTES: Final = 1024 * 1024  # aiohttp writes a longer body in parts if it gets a file
_OK, _UNAUTHORIZED, _MULTIPLE = 200, 401, 300


class HttpSink:
    """A sink, made from its record and its Airflow connection. For the tasks of the running loop.

    Raises TargetError if the record's path does not fit the connection's address. open_client: makes a client
    with these TLS settings. topic: for replies.
    """

    def __init__(
        self,
        record: SinkRecord,
        resolved: Resolved,
        open_client: Callable[[ssl.SSLContext | None], SinkClient],
        topic: str,
    ) -> None:
        target = resolved.target
        self.record, self.resolved, self._target = record, resolved, target
        self.in_flight = 0
        self.used_at = 0.0
        self._url = target.address(record.path)
        self._topic = topic
        self._client = open_client(resolved.tls)
        self._deadlines = Deadlines(record.retry.timeout_s)
        is_fetched = isinstance(target.auth, ClientCredentials)
        self._tokens = SinkTokens(target.auth, self._client) if is_fetched else None  # type: ignore[arg-type]
        asked = [REPLY_ASKED] if record.replies else []
        self._headers = own_headers([*asked, *target.fixed_headers()])
        # Without the connection's own path and query, which may be secrets.
        self._destination = f"{self._url.origin()}/{shown_path(record.path).lstrip('/')}"

    async def close(self) -> None:
        self._deadlines.close()
        await self._client.close()

    async def post(self, sent: Sendable, spans: DeliverySpans | None = None) -> tuple[Answer, Output | None]:
        """Make one delivery. If the sink answers a fetched token with 401, it gets another token, once.

        spans: None: the process has no tracer.
        """
        if self._tokens is None:
            return await self._try(sent, "", spans)
        try:
            token = await self._tokens.get()
            answer, reply = await self._try(sent, token, spans)
            if answer.status == _UNAUTHORIZED:
                self._tokens.drop(token)
                answer, reply = await self._try(sent, await self._tokens.get(), spans)
        except TokenError as e:
            return Answer(None, str(e), connected=False, destination=self._destination), None
        return answer, reply

    async def _try(
        self, sent: Sendable, token: str, spans: DeliverySpans | None
    ) -> tuple[Answer, Output | None]:
        if spans is None:
            return await self._request(sent, token, sent.trace)
        with spans.request() as span:
            answer, reply = await self._request(sent, token, span.carrier or sent.trace)
            span.answered(answer)
        return answer, reply

    async def _request(self, sent: Sendable, token: str, trace: Carrier) -> tuple[Answer, Output | None]:
        progress = RequestProgress()
        timeout_s = self.record.retry.timeout_s
        headers = self._headers.copy()
        headers.update(sent.headers)
        headers.update(trace_headers(trace))
        body = sent.body if len(sent.body) <= _WHOLE_BYTES else BytesIO(sent.body)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        timeout = self._deadlines.begin()
        try:
            async with (
                timeout,
                await self._client.post(self._url, body, headers, progress) as response,
            ):
                # The token of this request: another one may have replaced it by the time of its answer.
                secrets = (*self._target.secrets, token) if token else self._target.secrets
                return await self._read(response, sent, progress, secrets)
        except Exception as e:  # noqa: BLE001  # `failure` says what it means
            answer = progress.answer or failure(e, progress, timeout_s)
            free_frames(e)
            return answer._replace(destination=self._destination), None
        finally:
            self._deadlines.end(timeout)

    async def _read(
        self,
        response: aiohttp.ClientResponse,
        sent: Sendable,
        progress: RequestProgress,
        secrets: Sequence[str],
    ) -> tuple[Answer, Output | None]:
        status = response.status
        if status == _OK and self.record.replies and is_reply(response.raw_headers):
            return await self._read_reply(response, sent, secrets)
        answer = Answer(status, destination=self._destination)
        if _OK <= status < _MULTIPLE:
            progress.answer = answer
            await drain(response)
            return answer, None
        answer = answer._replace(retry_after_s=_retry_after(response))
        progress.answer = answer
        found = await excerpt(response, secrets)
        # Secrets are not found in what is compressed.
        return answer._replace(excerpt=b"" if is_compressed(response.raw_headers) else found), None

    async def _read_reply(
        self, response: aiohttp.ClientResponse, sent: Sendable, secrets: Sequence[str]
    ) -> tuple[Answer, Output | None]:
        answer = Answer(response.status, destination=self._destination)
        body = await whole(response, MOST_BYTES)
        try:
            if body is None:
                raise ReplyError(f"its reply is larger than {MOST_BYTES} bytes")
            return answer, read_reply(response.raw_headers, body, sent, self._topic)
        except ReplyError as e:
            text = blanked(str(e).encode("utf-8", "replace"), secrets).decode()
            return answer._replace(text=text[:_REASON_CHARS], ruling=e.verdict), None


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    stated = response.headers.get("Retry-After")
    if stated is None:
        return None
    now_s = time.time()
    with suppress(ValueError, TypeError, IndexError, OverflowError):
        at = parsedate_to_datetime(response.headers.get("Date", ""))
        now_s = (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    return retry_after(stated, int(now_s * 1000))
