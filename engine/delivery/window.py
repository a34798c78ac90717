"""How many open firings of a partition are held in memory, and for which there is room."""

from __future__ import annotations

from collections.abc import Container
from typing import Final, NamedTuple, TypeAlias

from .firings import OpenFiring

Scope: TypeAlias = tuple[str, str | None]  # (subscription, None) or (subscription, key of a lane)


class FiringWindow(NamedTuple):
    """How much is held of a partition: firings of a sink, firings of one of its lanes, bytes of a sink.

    noted: how many firings without room one scan may note (`NotedFirings`). At most twice as many are noted.
    """

    sink: int = 1000
    lane: int = 100
    sink_bytes: int = 16 * 1024 * 1024
    noted: int = 20_000


WINDOW: Final = FiringWindow()


class WindowUse:
    """How much of the window the firings in memory use, for one partition."""

    def __init__(self, window: FiringWindow) -> None:
        self._window = window
        self._counts: dict[Scope, int] = {}
        self._bytes: dict[str, int] = {}

    def count(self, firing: OpenFiring, by: int) -> None:
        """Count a firing that is held from now on (by=1), or no longer (by=-1)."""
        counts, subscription = self._counts, firing.subscription
        for scope in ((subscription, None), (subscription, firing.by_key)):
            count = counts.get(scope, 0) + by
            if count:
                counts[scope] = count
            else:
                del counts[scope]
        size = len(firing.record.value or b"")
        self._bytes[subscription] = self._bytes.get(subscription, 0) + by * size

    def full(self, firing: OpenFiring, sink: Scope, lane: Scope) -> Scope | None:
        """Which of its scopes has no room for a firing; None if both have. A sink may hold one of any size.

        lane: the same as `sink` if the sink has no lanes of keys.
        """
        size = len(firing.record.value or b"")
        held = self._counts.get(sink, 0)
        if held >= self._window.sink or (held and self._bytes[sink[0]] + size > self._window.sink_bytes):
            return sink
        return lane if lane != sink and self._counts.get(lane, 0) >= self._window.lane else None

    def has_room(self, scope: Scope, left_out: Container[Scope]) -> bool:
        """Whether half of the window is free again. A lane needs room of its sink too."""
        subscription, lane = scope
        held = self._counts.get(scope, 0)
        if lane is not None:
            sink = subscription, None
            if sink in left_out and not self.has_room(sink, left_out):
                return False
            return held <= self._window.lane // 2 and self._counts.get(sink, 0) < self._window.sink
        small = self._bytes.get(subscription, 0) <= self._window.sink_bytes // 2
        return held <= self._window.sink // 2 and (small or not held)

    def has_overfull_lane(self, subscription: str) -> bool:
        """Whether more is held of a key than a lane may hold, as after a time when the sink was one lane."""
        return any(
            count > self._window.lane
            for (name, lane), count in self._counts.items()
            if name == subscription and lane is not None
        )
