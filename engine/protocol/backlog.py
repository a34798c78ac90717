"""The records that were taken from the bus and are not processed yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ..bus import End, Polled, Record


class Backlog:
    """Records and ends in order of arrival. Iteration removes each item.

    Items stay in their batch until their turn, because a batch may build each record only when it is read.
    """

    def __init__(self) -> None:
        self._parts: deque[Iterator[Record | End]] = deque()
        self._left = 0

    def __len__(self) -> int:
        return self._left

    def add(self, records: Polled) -> None:
        if len(records):
            self._parts.append(iter(records))
            self._left += len(records)

    def first(self) -> Record | End | None:
        """The next item, without removing it; None if there is none."""
        for item in self:
            self.put_back(item)
            return item
        return None

    def put_back(self, *items: Record | End) -> None:
        """Make these the next items again. The caller must end a running iteration."""
        self._parts.appendleft(iter(items))
        self._left += len(items)

    def clear(self) -> None:
        """Remove all items, and end a running iteration."""
        self._parts.clear()
        self._left = 0

    def __iter__(self) -> Iterator[Record | End]:
        parts = self._parts
        while parts:
            for item in parts[0]:
                self._left -= 1
                yield item
                if not self._left:  # it was the last item, or `clear` was called
                    parts.clear()
                    return
            parts.popleft()
