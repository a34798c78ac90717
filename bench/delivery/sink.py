"""A sink that costs little: it answers 202 at once or after a delay, and misbehaves for one key.

    python -m bench.delivery.sink SETTINGS

It prints its port. The path of a request says what it gets: see `PATHS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

import uvloop

from .processes import HOST

DEAD_KEY: Final = "s0"
_DEAD: Final = f"\r\nce-subject: {DEAD_KEY}\r\n".encode()
_END, _LENGTH = b"\r\n\r\n", b"\r\ncontent-length: "


class _Behaviour(NamedTuple):
    """delay_s: of each answer. dead: the status for requests with DEAD_KEY; 0: they get no answer."""

    delay_s: float = 0.0
    dead: int = 202


PATHS: Final[Mapping[str, _Behaviour]] = {
    "quick": _Behaviour(),
    "slow": _Behaviour(0.02),
    "dead-500": _Behaviour(0.02, 500),
    "dead-503": _Behaviour(0.02, 503),
    "dead-silent": _Behaviour(0.02, 0),
}


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._found = b""
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._found += data
        while (end := self._found.find(_END)) >= 0:
            head = self._found[: end + 2]
            lower = head.lower()
            at = lower.index(_LENGTH) + len(_LENGTH)
            whole = end + len(_END) + int(lower[at : lower.index(b"\r\n", at)])
            if len(self._found) < whole:
                return
            self._found = self._found[whole:]
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        behaviour = PATHS[head.split(b" ", 2)[1].decode().lstrip("/")]
        status = behaviour.dead if _DEAD in head else 202
        if not status:
            return
        answer = b"HTTP/1.1 %d Answer\r\nContent-Length: 0\r\n\r\n" % status
        if behaviour.delay_s:
            self._loop.call_later(behaviour.delay_s, self._transport.write, answer)
        else:
            self._transport.write(answer)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, HOST, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve())
