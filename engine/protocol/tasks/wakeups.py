"""The wakeups of keys, grouped by spans of time. Only the earliest span is made a heap."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, TypeAlias

_SPARE: Final = 1000
# A span is 4 s. Most of its keys have closed before it becomes a heap. With longer spans a busy engine would
# make heaps of hundreds of thousands of entries at once; with shorter ones few keys would share a list.
_SPAN_BITS: Final = 12

Entry: TypeAlias = tuple[int, str, str]  # wakeup in ms since the epoch, incarnation, key


class Wakeup(NamedTuple):
    """A key, and when it is due (ms since the epoch)."""

    at_ms: int
    incarnation: str
    key: str


class Wakeups:
    """Each open key has an entry at its wakeup or earlier. `first` corrects stale entries.

    So it costs nothing to move a wakeup later (each heartbeat moves that of an `absent`) or to close a key,
    whose entry stays. When most entries may be stale, all are cleaned.

    wakeup_of: the present wakeup of a key; None for a closed key.
    """

    def __init__(self, wakeup_of: Callable[[str, str], int | None]) -> None:
        self._wakeup_of = wakeup_of
        self._spans: dict[int, list[Entry]] = {}
        self._order: list[int] = []  # a heap of the spans
        self._heaps: set[int] = set()  # the spans whose entries are heaps
        self._count, self._most = 0, _SPARE

    def __len__(self) -> int:
        return self._count

    def fill(self, entries: Iterable[Entry]) -> None:
        """Replace all entries by these."""
        spans: dict[int, list[Entry]] = {}
        for entry in entries:
            spans.setdefault(entry[0] >> _SPAN_BITS, []).append(entry)
        self._spans, self._order, self._heaps = spans, list(spans), set()
        heapify(self._order)
        self._count = sum(map(len, spans.values()))
        self._most = 2 * self._count + _SPARE

    def push(self, at_ms: int, incarnation: str, key: str) -> None:
        """Add an entry: for the first wakeup of a key, and when its wakeup moves earlier."""
        if self._count >= self._most:
            self._clean()
        self._add((at_ms, incarnation, key))

    def first(self) -> Wakeup | None:
        """The earliest wakeup; None if there is none."""
        order = self._order
        while order:
            span = order[0]
            entries = self._spans[span]
            if span not in self._heaps:
                heapify(entries)
                self._heaps.add(span)
            while entries:
                at_ms, incarnation, key = entries[0]
                now = self._wakeup_of(incarnation, key)
                if now == at_ms:
                    return Wakeup(at_ms, incarnation, key)
                heappop(entries)
                self._count -= 1
                if now is not None and now > at_ms:  # if earlier, the key has another entry
                    self._add((now, incarnation, key))
            heappop(order)
            del self._spans[span]
            self._heaps.discard(span)
        return None

    def take_first(self) -> None:
        """Remove the wakeup that `first` returned; `push` adds it again."""
        heappop(self._spans[self._order[0]])
        self._count -= 1

    def _add(self, entry: Entry) -> None:
        self._count += 1
        span = entry[0] >> _SPAN_BITS
        entries = self._spans.get(span)
        if entries is None:
            self._spans[span] = [entry]
            heappush(self._order, span)
        elif span in self._heaps:
            heappush(entries, entry)
        else:
            entries.append(entry)

    def _clean(self) -> None:
        """Remove the entries of closed keys, and all but one of each open key."""
        kept: dict[Entry, None] = {}
        for entries in self._spans.values():
            for entry in entries:
                at_ms, incarnation, key = entry
                now = self._wakeup_of(incarnation, key)
                if now is not None and now >= at_ms:
                    kept[entry if now == at_ms else (now, incarnation, key)] = None
        self.fill(kept)
