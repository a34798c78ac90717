"""Connections to sinks. The address of each is checked when its socket is made."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Collection
from concurrent.futures import Executor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler

from ..delivery.addresses import Network, refusal
from ..delivery.answers import Answer
from .heads import HeadsFirst

CONNECT_S: Final = 15.0
# Many servers close a connection after 5 idle seconds. A request that is sent just then fails, so none is
# sent over a connection that was idle for longer than this.
KEEP_S: Final = 4.0
NAMES_S: Final = 10  # how long the addresses of a name are cached
_USABLE: Final = getattr(socket, "AI_ADDRCONFIG", 0)  # no IPv6 addresses where there is no IPv6


@dataclass
class RequestProgress:
    """How far a request got. connected: its connection was made. refused: why its address is not allowed.

    answer: the answer without its body, once its head was read.
    """

    connected: bool = False
    refused: str = ""
    answer: Answer | None = None


# The progress of the request that the current task makes.
request_progress: Final[ContextVar[RequestProgress]] = ContextVar("request_progress")


class Names(AbstractResolver):
    """Resolves names by the system's resolver, in these threads: uvloop would use its own four."""

    def __init__(self, threads: Executor) -> None:
        self._threads = threads

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        look_up = partial(socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, flags=_USABLE)
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=found,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for found, _, protocol, _, address in await loop.run_in_executor(self._threads, look_up)
        ]

    async def close(self) -> None:
        """There is nothing to close."""


class Connector(aiohttp.TCPConnector):
    """Connections of one sink. tls: None for a sink without TLS. names: the threads of `Names`.

    allowed: networks that may be reached although they are not public. The address of each new connection is
    checked, also if the sink's name stood for another one before.
    """

    def __init__(self, allowed: Collection[Network], tls: ssl.SSLContext | None, names: Executor) -> None:
        self._allowed = tuple(allowed)
        super().__init__(
            ssl=True if tls is None else tls,
            limit=0,  # the deliverer limits what is in flight
            keepalive_timeout=KEEP_S,
            resolver=Names(names),
            ttl_dns_cache=NAMES_S,
            socket_factory=self._socket,
        )
        answers: type[ResponseHandler] = HeadsFirst
        self._factory = partial(answers, loop=self._loop)

    def _socket(self, address: Any) -> socket.socket:
        family, kind, protocol, _, place = address
        why = refusal(str(place[0]), self._allowed)
        if why:
            request_progress.get().refused = why
            raise OSError(why)
        return socket.socket(family, kind, protocol)
