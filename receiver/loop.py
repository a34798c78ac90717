"""The receiver's event loop: it ends a TLS handshake that takes too long."""

from __future__ import annotations

import asyncio
from typing import Any, Final

# asyncio's default is 60 s. During a handshake there is no `connection.Connection` yet, so its limits do not
# apply.
HANDSHAKE_S: Final = 10.0


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop if that is installed, else of asyncio, as uvicorn chooses. uvicorn calls it."""
    base: Any
    try:
        from uvloop import Loop as base  # noqa: N813
    except ImportError:
        base = asyncio.SelectorEventLoop

    class BoundedLoop(base):  # type: ignore[misc]
        async def create_server(self, *args: Any, ssl: Any = None, **more: Any) -> Any:
            if ssl is not None:  # asyncio refuses the argument without TLS
                more["ssl_handshake_timeout"] = HANDSHAKE_S
            return await super().create_server(*args, ssl=ssl, **more)

    made: asyncio.AbstractEventLoop = BoundedLoop()
    return made
