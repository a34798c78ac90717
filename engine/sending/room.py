"""The memory that deliveries of large data share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple


class Room:
    """`total` bytes, which the tasks of one event loop share: each waits until there is room for it.

    - Tasks get room in the order in which they asked. One that needs more than is left waits, and those
      behind it wait too. One that needs more than `total` gets it when no other task holds any.
    - A sink may hold at most as much as it leaves free. Tasks of a sink that would hold more wait, and those
      of other sinks pass them: so a sink that answers slowly gets half of the room, a second one half of the
      rest. A task of a sink that holds nothing is never passed.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self._by_sink: dict[str, int] = {}
        self._waiting: deque[_Waiting] = deque()

    @asynccontextmanager
    async def hold(self, sink: str, size: int) -> AsyncIterator[HeldRoom]:
        """Waits for room, which is given back at the end."""
        held = HeldRoom(self, sink)
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
        """The sink holds `by` bytes more; less, if it is negative."""
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


class HeldRoom:
    """The room that one task holds."""

    def __init__(self, room: Room, sink: str) -> None:
        self.sink = sink
        self._room, self._size = room, 0

    def keep(self, size: int) -> None:
        """Hold `size` bytes from now on; the rest is free for others."""
        by, self._size = size - self._size, size
        if by:
            self._room.change(self.sink, by)


class _Waiting(NamedTuple):
    held: HeldRoom
    size: int
    admitted: asyncio.Future[None]
