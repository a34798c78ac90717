"""The offsets of a partition's open firings. No offset above the lowest of them is committed."""

from __future__ import annotations

import heapq


class OpenOffsets:
    """Offsets of open firings, and the lowest of them. Each call takes O(log n)."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._heap: list[int] = []
        self._queued: set[int] = set()  # the offsets in the heap; some are not open any more

    def __len__(self) -> int:
        return len(self._open)

    def add(self, offset: int) -> None:
        self._open.add(offset)
        if offset not in self._queued:
            self._queued.add(offset)
            heapq.heappush(self._heap, offset)

    def remove(self, offset: int) -> None:
        self._open.discard(offset)

    def lowest(self) -> int | None:
        """The lowest open offset; None if none is open."""
        while self._heap and self._heap[0] not in self._open:
            self._queued.remove(heapq.heappop(self._heap))
        return self._heap[0] if self._heap else None
