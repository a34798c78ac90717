"""The receiver's event loop, which accepts connections by a `Listener`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .listener import Listener, open_sockets


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop if that is installed, else of asyncio, as uvicorn chooses. uvicorn calls it.

    Its servers serve `connection.Connection` only.
    """
    base: Any
    try:
        from uvloop import Loop as base  # noqa: N813
    except ImportError:
        base = asyncio.SelectorEventLoop

    class ListeningLoop(base):  # type: ignore[misc]
        async def create_server(
            self,
            protocol_factory: Callable[[], Any],
            host: str | None = None,
            port: int = 0,
            *,
            sock: Any = None,
            ssl: Any = None,
            backlog: int = 2048,
        ) -> Listener:
            """uvicorn calls it: with host and port, or with the socket that worker processes share."""
            if sock is None:
                sockets = await open_sockets(self, host, port, backlog)
            else:
                sock.listen(backlog)
                sockets = [sock]
            return Listener(self, sockets, protocol_factory, ssl)

    made: asyncio.AbstractEventLoop = ListeningLoop()
    return made
