"""Ports that a broker can listen on."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Iterator
from typing import Final

from .errors import BrokerError

# Below the ephemeral ports of outgoing connections (from 32768 on Linux, from 49152 elsewhere). An outgoing
# connection could otherwise take the port while the broker is down: the broker could not come back, or its
# clients would connect to another program.
_CHOICE: Final = range(20_000, 32_768)
chance = random.SystemRandom()  # forked processes must not choose the same ports


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Returns `count` ports of an address on which nothing listens. Raises BrokerError if there are fewer."""
    found: list[int] = []
    refused: OSError | None = None
    for port in _shuffled():
        try:
            try_bind(host, port)
        except OSError as e:
            refused = e
            if e.errno != errno.EADDRINUSE:
                break
        else:
            found.append(port)
            if len(found) == count:
                return found
    ports = f"Only {len(found)} of {count} ports" if found else "No port"
    raise BrokerError(f"{ports} can be bound on {host}: {refused}.") from refused


def _shuffled() -> Iterator[int]:
    # Draws one at a time: each draw costs a system call, and usually the first port is free.
    left = list(_CHOICE)
    while left:
        at = chance.randrange(len(left))
        left[at], left[-1] = left[-1], left[at]
        yield left.pop()


def try_bind(host: str, port: int) -> None:
    """Binds a port and releases it at once. Raises OSError if it cannot be bound."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
        # Kafka binds like this too: a port whose closed connections linger counts as free.
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((host, port))
