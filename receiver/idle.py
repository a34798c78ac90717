"""The connections that owe a whole request, which give way to new ones."""

from __future__ import annotations

from collections.abc import Sized
from typing import Final, Protocol

from .faults import Faults

_FULL: Final = (
    "it has {} connections, as many as it may; each new one now ends the one whose next whole request it has"
    " awaited longest. More --workers take more; a proxy in front can limit strangers"
)


class Peer(Protocol):
    """The other side of a connection, in its TLS handshake or after it."""

    def give_way(self) -> None:
        """Ends the connection at once."""
        ...


class Idle:
    """Peers whose next whole request has not come yet, the one awaited longest first.

    They give way to new connections. So a peer that sends nothing, or sends slowly, keeps nobody out, and a
    peer that waits for its answer is never cut off.
    """

    def __init__(self) -> None:
        self.peers: dict[Peer, None] = {}
        self._faults = Faults()

    def add(self, peer: Peer) -> None:
        """Also of a peer that is there already, which keeps its place."""
        self.peers[peer] = None

    def discard(self, peer: Peer) -> None:
        self.peers.pop(peer, None)

    def make_room(self, connections: Sized, most: int) -> bool:
        """Whether the newest of these connections, which is not idle yet, may stay.

        If there are more than `most`, the one idle longest gives way; without any the newest may not stay.
        """
        if len(connections) <= most:
            return True
        oldest = next(iter(self.peers), None)
        if oldest is None:
            return False
        del self.peers[oldest]
        oldest.give_way()
        self._faults.report(_FULL.format(most))
        return True
