"""The last firings in the action topic, and how many are open."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from ..bus import Record
from ..waiting.open_firings import OpenFirings
from .fired import Fired, fired_in

MOST_FIRINGS: Final = 10_000
MOST_EVENTS: Final = 100_000  # of all firings together
MOST_OPEN: Final = 200_000  # open firings of all subscriptions whose places are known


@dataclass(frozen=True)
class OpenCount:
    """The open firings of a durable subscription. since_ms: when the oldest was written; None without any."""

    count: int
    since_ms: int | None


@dataclass(frozen=True)
class DurableFirings:
    """The firings of a durable subscription: how many are open, and the last ones, newest first."""

    open: OpenCount
    last: list[Fired]


class LastFirings:
    """The last firings by the time at which engines decided, at most `most`. Not thread-safe.

    Of open firings beyond these only the number and the oldest are known, as `OpenFirings` keeps them.
    """

    def __init__(self, most: int = MOST_FIRINGS) -> None:
        self._most, self._events, self._open_in_all = most, 0, 0
        self._open = OpenFirings()
        self._known: dict[bytes, Fired] = {}  # by record key
        self._order: list[tuple[int, str, bytes]] = []  # (*Fired.place, record key), oldest first

    def __len__(self) -> int:
        return len(self._order)

    def apply(self, record: Record) -> bool:
        """Process the next record of the action topic. Returns whether a firing or its state changed."""
        key = record.key or b""
        fired = fired_in(record)
        self._follow_open(record, key, fired)
        before = self._known.get(key)
        if record.value is None or fired is not None:
            self._forget(key)
        if fired is None:
            return before is not None and record.value is None
        if before is not None and before.id == fired.id and fired.written_ms is None:
            fired = replace(fired, written_ms=before.written_ms)
        self._known[key] = fired
        insort(self._order, (*fired.place, key))
        self._events += _count(fired)
        while len(self._order) > self._most or (self._events > MOST_EVENTS and len(self._order) > 1):
            self._forget(self._order[0][-1])
        return True

    def _follow_open(self, record: Record, key: bytes, fired: Fired | None) -> None:
        if self._open_in_all >= MOST_OPEN and fired is not None and fired.open:
            return
        name = key.decode("utf-8", "replace").partition("\0")[0]
        self._open_in_all -= self._open.count(name)
        self._open.follow(record)
        self._open_in_all += self._open.count(name)

    def _forget(self, key: bytes) -> None:
        fired = self._known.pop(key, None)
        if fired is not None:
            del self._order[bisect_left(self._order, (*fired.place, key))]
            self._events -= _count(fired)

    def newest(self, before: tuple[int, str] | None = None) -> Iterator[Fired]:
        """The firings before a place (`Fired.place`), or all, newest first."""
        end = len(self._order)
        if before is not None:
            end = bisect_left(self._order, (*before, b""))
        return (self._known[key] for *_, key in reversed(self._order[:end]))

    def of_wait(self, subscription: str) -> Fired | None:
        """The last firing of a one-shot subscription."""
        return self._known.get(subscription.encode())

    def open_of(self, subscription: str) -> OpenCount:
        """The open firings of a durable subscription."""
        oldest = self._open.oldest(subscription, 1, ())
        return OpenCount(self._open.count(subscription), oldest[0].timestamp_ms if oldest else None)

    def durable(self, subscription: str) -> DurableFirings:
        """The firings of a durable subscription."""
        own = [e for e in self.newest() if e.subscription == subscription and e.kind == "durable"]
        return DurableFirings(self.open_of(subscription), own)


def _count(fired: Fired) -> int:
    return sum(map(len, fired.events.values()))
