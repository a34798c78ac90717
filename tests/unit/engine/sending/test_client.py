"""`SinkClient` beside aiohttp's session."""

from __future__ import annotations

import asyncio
import random
import string
from io import BytesIO

import aiohttp
from interlock.engine.sending.client import SinkClient, own_headers
from interlock.engine.sending.connector import Connector, RequestProgress
from interlock.engine.sending.threads import DaemonThreads
from yarl import URL

from tests.kit.posting import LOOPBACK

NAMES = (
    "content-type",
    "ce-id",
    "ce-subject",
    "traceparent",
    "Authorization",
    "User-Agent",
    "x-empty",
    "Prefer",
)
HEADERS = {"User-Agent": "airflow-interlock", "Accept-Encoding": "identity"}
ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\nset-cookie: a=b\r\nx-some: 1\r\n\r\nok"
RUNS = 60


class Server:
    """Keeps the bytes of each request; each has the header `x-last`, after which the body ends with a NUL."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while found := await self._next(reader):
            self.received.append(found)
            writer.write(ANSWER)
        writer.close()

    async def _next(self, reader: asyncio.StreamReader) -> bytes:
        try:
            return await reader.readuntil(b"\0")
        except asyncio.IncompleteReadError:
            return b""


def request(chance: random.Random) -> tuple[list[tuple[str, str]], bytes]:
    names = chance.sample(NAMES, chance.randrange(len(NAMES)))
    letters = string.ascii_letters + " /=;%\u00e9"
    headers = [(name, "".join(chance.choices(letters, k=chance.randrange(20))).strip()) for name in names]
    return headers, chance.randbytes(chance.choice([0, 1, 300, 70_000])).replace(b"\0", b"1") + b"\0"


async def compare(seed: int) -> None:
    chance, server = random.Random(seed), Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=2**20)
    url = URL(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/some/path?a=b%20c")
    client = SinkClient(Connector(LOOPBACK, None, DaemonThreads(1, "names")))
    session = aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        headers=HEADERS,
        skip_auto_headers=("Accept", "Content-Type"),
    )
    async with session, listening:
        for _ in range(RUNS):
            headers, body = request(chance)
            is_file = chance.random() < 0.2
            sent = [BytesIO(body) if is_file else body for _ in range(2)]
            progress = RequestProgress()
            async with await client.post(url, sent[0], own_headers(headers), progress) as answer:
                own = answer.status, answer.raw_headers, await answer.read()
            async with session.post(url, data=sent[1], headers=headers, allow_redirects=False) as answer:
                assert own == (answer.status, answer.raw_headers, await answer.read())
            assert progress.connected
            first, second = server.received[-2:]
            assert first == second, (headers, is_file)
        await client.close()


def test_a_request_is_that_of_a_session_byte_for_byte() -> None:
    asyncio.run(compare(seed=28))
