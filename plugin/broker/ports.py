"""Ports that a broker can listen on."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Iterator
from typing import Final

from .errors import BrokerError

# Below those that outgoing connections are given (from 32768 by Linux's default, from 49152 by others'): one
# of these may have the port when the broker comes back, or another program's socket meets the clients of a
# broker that is down, which go on trying.
_CHOICE: Final = range(20_000, 32_768)
_random = random.SystemRandom()  # processes that begin alike choose apart


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """So many ports of an address on which nobody listens now; BrokerError where there are not as many."""
    found: list[int] = []
    refused: OSError | None = None
    for port in _shuffled():
        try:
            bind(host, port)
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
    # Each draw asks the system for random bytes, and mostly the first port is free: one at a time.
    left = list(_CHOICE)
    while left:
        at = _random.randrange(len(left))
        left[at], left[-1] = left[-1], left[at]
        yield left.pop()


def bind(host: str, port: int) -> None:
    """Take a port for a moment; OSError where that cannot be."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
        # as Kafka binds: a port whose last connections linger is free
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((host, port))
