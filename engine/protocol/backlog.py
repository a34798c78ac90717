"""The records that were taken from the bus and are not processed yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ..bus import End, Polled, Record


class Backlog:
    """Records and ends in the order in which they came. Iteration takes them out, one by one.

    Each item is taken from its batch when its turn comes, and not kept: a record that the bus makes for it
    is freed as soon as it is processed.
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
        """The next item, which stays; None if nothing is left."""
        for item in self:
            self.put_back(item)
            return item
        return None

    def put_back(self, *items: Record | End) -> None:
        """Make these the next items again. An iteration under way must stop."""
        self._parts.appendleft(iter(items))
        self._left += len(items)

    def clear(self) -> None:
        """Remove all items. An iteration under way ends as well."""
        self._parts.clear()
        self._left = 0

    def __iter__(self) -> Iterator[Record | End]:
        parts = self._parts
        while parts:
            for item in parts[0]:
                self._left -= 1
                yield item
                if not self._left:
                    break
            if not self._left:
                parts.clear()
            else:
                parts.popleft()
