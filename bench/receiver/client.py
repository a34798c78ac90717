"""An HTTP client that costs little: it repeats one request on each connection, and counts the answers."""

from __future__ import annotations

import asyncio
import time

from .serving import HOST

_END = b"\r\n\r\n"
_ACCEPTED = b"HTTP/1.1 202 "


class _Repeating(asyncio.Protocol):
    """Sends the request again at each answer, until `until`; keeps the seconds of each."""

    def __init__(self, request: bytes, until: float) -> None:
        self._request, self._until = request, until
        self._found = b""
        self._sent = 0.0
        self.seconds: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._found += data
        if not self._found.endswith(_END):  # 202 has no body
            return
        now = time.perf_counter()
        self.seconds.append(now - self._sent)
        if not self._found.startswith(_ACCEPTED):
            self._end(RuntimeError(f"the server answered {self._found[:200]!r}"))
        elif now >= self._until:
            self._end(None)
        else:
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error or RuntimeError("the server closed the connection"))

    def _send(self) -> None:
        self._found = b""
        self._sent = time.perf_counter()
        self._transport.write(self._request)

    def _end(self, error: Exception | None) -> None:
        if not self.done.done():
            if error is None:
                self.done.set_result(None)
            else:
                self.done.set_exception(error)
        self._transport.close()


def repeat(port: int, request: bytes, connections: int, seconds: float) -> list[float]:
    """The seconds of each request, of all connections. Ends the bench if an answer is not 202."""

    async def run() -> list[float]:
        loop, until = asyncio.get_running_loop(), time.perf_counter() + seconds
        made = [
            (await loop.create_connection(lambda: _Repeating(request, until), HOST, port))[1]
            for _ in range(connections)
        ]
        try:
            await asyncio.gather(*(each.done for each in made))
        except (RuntimeError, OSError) as error:
            raise SystemExit(f"bench: {error}") from None
        return [taken for each in made for taken in each.seconds]

    return asyncio.run(run())


def posted(headers: dict[str, str], body: bytes) -> bytes:
    """A request to /events."""
    lines = {"host": HOST, "content-length": str(len(body)), **headers}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST /events HTTP/1.1\r\n{text}\r\n".encode() + body
