"""A sink of the tests' own on 127.0.0.1: it notes each request, and answers, or misbehaves, as told."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Self, TypeAlias

DRIP_S = 0.01  # between two bytes of an answer that drips


@dataclass(frozen=True)
class Received:
    """A request. headers: names in lower case. connection: 1 for the sink's first connection."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes of an event in binary mode, not decoded."""
        return {name[3:]: text for name, text in self.headers.items() if name.startswith("ce-")}


# Answers a request; returns whether the connection is kept.
Behaviour: TypeAlias = Callable[[asyncio.StreamWriter], Awaitable[bool]]
ChooseBehaviour: TypeAlias = Callable[[Received], Behaviour]


def answer(status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Behaviour:
    """An ordinary answer."""
    return raw(_head(status, {"content-length": str(len(body)), **(headers or {})}) + body, is_kept=True)


def raw(data: bytes, *, is_kept: bool = False) -> Behaviour:
    """These bytes, whatever they are; then, unless `is_kept`, the connection ends."""

    async def behave(writer: asyncio.StreamWriter) -> bool:
        writer.write(data)
        await writer.drain()
        return is_kept

    return behave


def hang() -> Behaviour:
    """Nothing, until the client gives up."""

    async def behave(writer: asyncio.StreamWriter) -> bool:
        await writer.wait_closed()
        return False

    return behave


def reset() -> Behaviour:
    """The connection is reset without an answer."""

    async def behave(writer: asyncio.StreamWriter) -> bool:
        writer.transport.abort()
        return False

    return behave


def drip(data: bytes, repeats: int = 1_000_000, *, start: bytes = b"") -> Behaviour:
    """These bytes one by one, again and again: each in time, and never an end."""

    async def behave(writer: asyncio.StreamWriter) -> bool:
        writer.write(start)
        for _ in range(repeats):
            for byte in data:
                if writer.is_closing():
                    return False
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(DRIP_S)
        return False

    return behave


def flood(start: bytes, repeated: bytes, most: int = 256 * 1024 * 1024) -> Behaviour:
    """`start`, then `repeated` up to `most` bytes, as fast as the client reads."""

    async def behave(writer: asyncio.StreamWriter) -> bool:
        writer.write(start)
        part = repeated * (64 * 1024 // len(repeated))
        for _ in range(0, most, len(part)):
            if writer.is_closing():
                return False
            writer.write(part)
            await writer.drain()
        return False

    return behave


def cut(status: int, headers: Mapping[str, str], body: bytes, missing: int = 100) -> Behaviour:
    """An answer that ends `missing` bytes before its announced end."""
    return raw(_head(status, {"content-length": str(len(body) + missing), **headers}) + body)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = "Other"
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {text}" for name, text in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


@contextmanager
def reserved() -> Iterator[int]:
    """A port of 127.0.0.1 that nobody else gets. It refuses connections while no `Sink` serves on it."""
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@dataclass
class Sink:
    """As a context manager it serves on a free `port`, or on one that is given and `reserved`.

    behave: gets each request; tests may replace it.

    tls: the TLS context with its certificate; None: without TLS. received: all requests so far. connections:
    how many were accepted. early: answers each request after its headers, before its body.
    """

    behave: ChooseBehaviour = lambda _: answer(202)
    tls: ssl.SSLContext | None = None
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    early: Behaviour | None = None
    port: int = 0

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._ready, self._end = threading.Event(), asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._run, name="sink")

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    def answer(self, *behaviours: Behaviour) -> None:
        """Answers with these from now on, one after the other; the last one again and again."""
        left = [*behaviours]
        self.behave = lambda _: left.pop(0) if len(left) > 1 else left[0]

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._connected, "127.0.0.1", self.port, ssl=self.tls, limit=2**24, reuse_port=bool(self.port)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()
        for writer in [*self._writers]:
            writer.transport.abort()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self._writers.add(writer)
        try:
            while await self._answer_next(reader, writer, number):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # the client has gone, or the sink ends
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer_next(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *rest = head[:-4].split("\r\n")
        if self.early is not None:
            await self.early(writer)
            while await reader.read(2**16):  # a reset would take the answer away from the client
                pass
            return False
        method, path, _ = line.split(" ")
        headers = {name.lower(): text.strip() for name, _, text in (each.partition(":") for each in rest)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        found = Received(method, path, headers, body, connection)
        self.received.append(found)
        return await self.behave(found)(writer)
