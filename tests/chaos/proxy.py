"""A TCP proxy in front of the broker that recognises Kafka requests, and applies rules to them.

Engines connect through it (the advertised listener is its); load and oracle do not. A rule selects requests
by API key and client, for some time.
"""

from __future__ import annotations

import asyncio
import re
import struct
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

API_KEYS = {
    "Produce": 0,
    "Heartbeat": 12,
    "InitProducerId": 22,
    "AddPartitionsToTxn": 24,
    "AddOffsetsToTxn": 25,
    "EndTxn": 26,
    "TxnOffsetCommit": 28,
}
COORDINATOR = frozenset({10, 11, 12, 13, 14, 22, 24, 25, 26, 28})
GROUP = frozenset({11, 12, 14})  # requests of a member: JoinGroup, Heartbeat, SyncGroup
LOADING, NOT_COORDINATOR = 14, 16
# Requests that can be refused: {API: (first version whose response has tagged fields, bytes after the
# error)}.
REFUSABLE: dict[int, tuple[int, bytes]] = {
    API_KEYS["Heartbeat"]: (4, b""),
    API_KEYS["InitProducerId"]: (2, struct.pack(">qh", -1, -1)),
    API_KEYS["AddOffsetsToTxn"]: (3, b""),
    API_KEYS["EndTxn"]: (3, b""),
}
_MOST_BYTES = 128 * 1024 * 1024

Kind = Literal["delay", "late", "drop-reply", "black-hole", "cut", "refuse"]


@dataclass(eq=False)
class Rule:
    """What to do with requests.

    Kinds: delay: forward each after `delay_s`. late: hold each for `delay_s` and forward it even if the
    client has closed its connection; `reset`: reset that connection at once. drop-reply: the broker
    processes the request, but the response is dropped. black-hole: nothing passes in either direction, and
    connections stay open. cut: reset the connection. refuse: the broker does not get the request, and the
    response is the error `code` (for REFUSABLE requests).
    apis: API keys, None for all. client: a part between hyphens of the `client.id` of the clients, None for
    all; an engine's consumer in the group has the transactional id. hits: how often it applied. passed: how
    many of those were forwarded since. most: limit of hits. once: apply to each kind of request of a client
    only once, so that it can connect again. met: (client, API key) of the requests it applied to.
    """

    kind: Kind
    until: float  # time.monotonic()
    lasts_s: float = 0.0  # its planned duration
    apis: frozenset[int] | None = None
    client: str | None = None
    delay_s: float = 0.0
    reset: bool = False
    code: int = LOADING
    most: int = 10**9
    once: bool = False
    hits: int = 0
    passed: int = 0
    met: set[tuple[str | None, int]] = field(default_factory=set)

    @property
    def touched(self) -> set[int]:
        """The API keys of the requests that it applied to."""
        return {api for _, api in self.met}

    def takes(self, api: int, client: str | None) -> bool:
        if time.monotonic() > self.until or self.hits >= self.most:
            return False
        if self.client is not None and not _has(client, self.client):
            return False
        if self.once and (client, api) in self.met:
            return False
        return self.apis is None or api in self.apis


@dataclass
class _Link:
    """One client's connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    client: str | None = None
    dropped: set[int] = field(default_factory=set)  # correlation ids of dropped responses


class Proxy:
    """Runs in its own thread inside the `with` block; rules may be added from any thread."""

    def __init__(self, port: int, broker_port: int, host: str = "127.0.0.1") -> None:
        self.host, self.port, self._broker_port = host, port, broker_port
        self._rules: list[Rule] = []
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._wait(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._wait(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def add(self, rule: Rule) -> Rule:
        """Adds a rule; the first added rule that matches a request decides."""
        self._rules = [each for each in self._rules if time.monotonic() < each.until] + [rule]
        return rule

    def _wait(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, self.host, self.port)

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._link(_Link(reader, writer))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _link(self, link: _Link) -> None:
        to = await asyncio.open_connection(self.host, self._broker_port)
        upstream, broker = to
        back = asyncio.create_task(self._replies(upstream, link))
        try:
            await self._requests(link, broker)
        finally:
            back.cancel()
            with suppress(asyncio.CancelledError, OSError, asyncio.IncompleteReadError):
                await back
            broker.close()

    async def _requests(self, link: _Link, broker: asyncio.StreamWriter) -> None:
        while True:
            frame = await _frame(link.reader)
            api, version, correlation = struct.unpack_from(">hhi", frame, 4)
            (length,) = struct.unpack_from(">h", frame, 12)
            if length >= 0:
                link.client = frame[14 : 14 + length].decode("utf-8", "replace")
            rule = self._rule(api, link.client)
            if rule is not None:
                rule.hits += 1
                rule.met.add((link.client, api))
                if rule.kind == "refuse":
                    link.writer.write(refusal(api, version, correlation, rule.code))
                    await link.writer.drain()
                    continue
                if rule.kind == "cut":
                    link.writer.transport.abort()
                    return
                if rule.kind == "late":
                    if rule.reset:
                        link.writer.transport.abort()
                    await asyncio.sleep(
                        rule.delay_s
                    )  # nothing is read meanwhile, so the client's end goes unnoticed
                elif rule.kind == "delay":
                    await asyncio.sleep(min(rule.delay_s, max(0.0, rule.until - time.monotonic())))
                elif rule.kind == "drop-reply":
                    link.dropped.add(correlation)
                elif rule.kind == "black-hole":
                    await asyncio.sleep(max(0.0, rule.until - time.monotonic()))
            broker.write(frame)
            await broker.drain()
            if rule is not None and rule.kind == "late":
                await asyncio.sleep(0.5)  # so that the broker responds before the client's end closes both
            if rule is not None:
                rule.passed += 1

    async def _replies(self, upstream: asyncio.StreamReader, link: _Link) -> None:
        try:
            while True:
                frame = await _frame(upstream)
                (correlation,) = struct.unpack_from(">i", frame, 4)
                hole = self._rule(-1, link.client, "black-hole")
                if hole is not None:
                    hole.hits += 1
                    await asyncio.sleep(max(0.0, hole.until - time.monotonic()))
                if correlation in link.dropped:
                    link.dropped.discard(correlation)
                    continue
                link.writer.write(frame)
                await link.writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            link.writer.close()  # the broker's connection has ended: end this one too

    def _rule(self, api: int, client: str | None, kind: Kind | None = None) -> Rule | None:
        for rule in self._rules:
            if kind is None and rule.takes(api, client):
                return rule
            if kind is not None and rule.kind == kind and rule.apis is None and rule.takes(api, client):
                return rule
        return None


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    (length,) = struct.unpack(">i", head)
    if not 0 <= length <= _MOST_BYTES:
        raise OSError(f"no Kafka frame: {length} bytes")
    return head + await reader.readexactly(length)


def _has(client: str | None, name: str) -> bool:
    return client is not None and re.search(rf"(?<![^-]){re.escape(name)}(?![^-])", client) is not None


def refusal(api: int, version: int, correlation: int, code: int) -> bytes:
    tagged_from, rest = REFUSABLE[api]
    tags = b"\0" if version >= tagged_from else b""
    body = struct.pack(">i", correlation) + tags + struct.pack(">ih", 0, code) + rest + tags
    return struct.pack(">i", len(body)) + body
