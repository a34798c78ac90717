"""The memory that deliveries of large data share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple


class Room:
    """So many bytes, for the tasks of one event loop: each waits until there is room for it.

    - They get room in the order in which they asked. Who asks for more than there is left waits, and holds up
      those behind it; who asks for more than there is at all gets it when nobody holds any.
    - What a sink holds is at most what is left for others. A sink with more waits, and holds up nobody: so
      one that answers slowly holds half of all, a second one half of the rest. A sink that holds nothing
      always has its turn.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self._by_sink: dict[str, int] = {}
        self._waiting: deque[_Waiting] = deque()

    @asynccontextmanager
    async def hold(self, sink: str, size: int) -> AsyncIterator[Held]:
        """Waits for room, which is given back at the end."""
        held = Held(self, sink)
        waiting = _Waiting(held, size, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            self._admit()
            await waiting.admitted
            yield held
        finally:
            if waiting in self._waiting:  # it was cancelled, and may have held up others
                self._waiting.remove(waiting)
                self._admit()
            held.keep(0)

    def change(self, sink: str, by: int) -> None:
        """The sink holds so many bytes more, or less."""
        self.used += by
        held = self._by_sink.pop(sink, 0) + by
        if held:
            self._by_sink[sink] = held
        if by < 0:
            self._admit()

    def _admit(self) -> None:
        passed: set[str] = set()
        for waiting in [*self._waiting]:
            sink = waiting.held.sink
            if sink in passed or waiting.admitted.done():  # done: it was cancelled
                continue
            mine = self._by_sink.get(sink, 0)
            if not self.used or waiting.size + mine <= self.total - self.used:
                self._waiting.remove(waiting)
                waiting.held.keep(waiting.size)
                waiting.admitted.set_result(None)
            elif mine:
                passed.add(sink)
            else:
                return


class Held:
    """The bytes that one task holds."""

    def __init__(self, room: Room, sink: str) -> None:
        self.sink = sink
        self._room, self._size = room, 0

    def keep(self, size: int) -> None:
        """Hold so many bytes from now on; what is left over goes to others."""
        by, self._size = size - self._size, size
        if by:
            self._room.change(self.sink, by)


class _Waiting(NamedTuple):
    held: Held
    size: int
    admitted: asyncio.Future[None]
