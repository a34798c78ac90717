"""What was taken from the bus and is not yet worked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ..bus import End, Polled, Record


class Backlog:
    """Records and ends in the order in which they came; going through it takes them out, one by one.

    Each is asked of its batch when its turn comes, and not kept: what the bus makes of it then lives no
    longer than the work on it.
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
        """The next one, which stays; None where nothing is left."""
        for item in self:
            self.put_back(item)
            return item
        return None

    def put_back(self, *items: Record | End) -> None:
        """They are the next ones again: whoever goes through it must stop."""
        self._parts.appendleft(iter(items))
        self._left += len(items)

    def clear(self) -> None:
        """Whoever is going through it gets nothing more either."""
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
