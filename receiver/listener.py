"""Accepts connections: each counts from its first moment on, before its TLS handshake."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from .faults import Faults

if TYPE_CHECKING:
    from .connection import Connection

# How long a handshake may take. asyncio's default is 60 s.
HANDSHAKE_S: Final = 10.0
# How long a peer may take to agree to the end of a TLS connection. asyncio's default is 30 s.
SHUTDOWN_S: Final = 10.0
# Accepted in one turn of the loop. The loops' own servers accept all that wait, up to 2,048, before they make
# the connection of the first: more than the process may open files. uvloop then stops listening for ever.
_AT_ONCE: Final = 16
_AGAIN_S: Final = 0.1  # after a connection could not be accepted
_NO_MORE_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_NO_ADDRESS: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})  # ::1 of localhost without IPv6


class Listener(asyncio.AbstractServer):
    """Listening sockets, and what they accepted until its `Connection` has begun to speak HTTP.

    A loop's own server makes the connection of a TLS peer only after its handshake. Before that the peer
    would be counted nowhere, and could not give way to another.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: Sequence[socket.socket],
        make: Callable[[], Connection],
        context: ssl.SSLContext | None,
    ) -> None:
        self._loop, self._make = loop, make
        self._tls: dict[str, Any] = {}
        if context is not None:
            self._tls = {
                "ssl": context, "ssl_handshake_timeout": HANDSHAKE_S, "ssl_shutdown_timeout": SHUTDOWN_S
            }  # fmt: skip
        self.sockets = tuple(sockets)
        self._tasks: set[asyncio.Task[None]] = set()
        self._faults = Faults()
        for each in self.sockets:
            each.setblocking(False)
            self._listen(each)

    def close(self) -> None:
        """Stops listening. Connections stay."""
        for each in self.sockets:
            if each.fileno() >= 0:
                self._loop.remove_reader(each)
                each.close()
        self.sockets = ()

    async def wait_closed(self) -> None:
        """Returns when no handshake is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def is_serving(self) -> bool:
        return bool(self.sockets)

    async def start_serving(self) -> None:
        """It serves from the beginning."""

    async def serve_forever(self) -> None:
        raise NotImplementedError("uvicorn decides how long the receiver serves")

    def _listen(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, _address = listening.accept()
            except (BlockingIOError, InterruptedError):  # another worker process was quicker
                return
            except OSError as error:
                if error.errno in _NO_MORE_FILES:
                    self._faults.report(f"a connection could not be accepted: {error}; allow more open files")
                    self._loop.remove_reader(listening)
                    self._loop.call_later(_AGAIN_S, self._listen, listening)
                    return
                continue  # the peer has gone already
            accepted.setblocking(False)
            self._begin(accepted)

    def _begin(self, accepted: socket.socket) -> None:
        connection = self._make()
        connection.accepted(accepted)
        task = self._loop.create_task(self._connect(connection, accepted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, connection: Connection, accepted: socket.socket) -> None:
        """Shakes hands. The loop then calls connection_made."""
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted, **self._tls)
        except OSError:  # of the peer: no TLS, a certificate that is not valid, too slow, gone
            return
        finally:
            connection.not_made()


async def open_sockets(
    loop: asyncio.AbstractEventLoop, host: str | None, port: int, backlog: int
) -> list[socket.socket]:
    """Sockets that listen on the addresses of the host that this machine has, at least one.

    Raises OSError naming an address that is taken, may not be used, or does not exist.
    """
    try:
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise OSError(error.errno, f"{error.strerror}: {host}") from None
    made: list[socket.socket] = []
    absent: OSError | None = None
    for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
        try:
            made.append(socket.create_server(address, family=family, backlog=backlog))
        except OSError as error:
            if error.errno in _NO_ADDRESS:
                absent = error
                continue
            for each in made:
                each.close()
            raise
    if not made and absent is not None:
        raise absent
    return made
