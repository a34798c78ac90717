"""Which keys must be looked at, and when: a heap whose entries are checked when they come to the top."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import NamedTuple

_SPARE = 1000


class Wakeup(NamedTuple):
    """A key, and when it is due (ms since the epoch)."""

    at_ms: int
    incarnation: str
    key: str


class Wakeups:
    """Each key stands in the heap at its wakeup or earlier; what is not so any more is mended at the top.

    So a wakeup that moves later, as each heartbeat moves that of an `absent`, costs nothing, and a key that
    closes leaves its entry behind. The heap is cleaned when most of it may be such entries.

    wakeup_of: the present wakeup of a key; None for a key that is closed.
    """

    def __init__(self, wakeup_of: Callable[[str, str], int | None]) -> None:
        self._wakeup_of = wakeup_of
        self._heap: list[tuple[int, str, str]] = []
        self._most = _SPARE

    def __len__(self) -> int:
        return len(self._heap)

    def fill(self, entries: Iterable[tuple[int, str, str]]) -> None:
        """Hold these entries, and no others any more."""
        self._heap = list(entries)
        heapq.heapify(self._heap)
        self._most = 2 * len(self._heap) + _SPARE

    def push(self, at_ms: int, incarnation: str, key: str) -> None:
        """Needed for a key whose wakeup is earlier than before, or that had none."""
        if len(self._heap) >= self._most:
            self._clean()
        heapq.heappush(self._heap, (at_ms, incarnation, key))

    def first(self) -> Wakeup | None:
        """The earliest one."""
        heap = self._heap
        while heap:
            at_ms, incarnation, key = heap[0]
            now = self._wakeup_of(incarnation, key)
            if now == at_ms:
                return Wakeup(at_ms, incarnation, key)
            if now is None or now < at_ms:  # closed, or another entry has come to the top for it
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (now, incarnation, key))
        return None

    def take_first(self) -> None:
        """Take out what `first` gave; `push` puts it back."""
        heapq.heappop(self._heap)

    def _clean(self) -> None:
        keys = {(incarnation, key) for _, incarnation, key in self._heap}
        known = ((self._wakeup_of(*key), *key) for key in keys)
        self.fill((at_ms, incarnation, key) for at_ms, incarnation, key in known if at_ms is not None)
