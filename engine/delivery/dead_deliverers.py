"""Ends open transactions of deliverers that died, which block the next owner and all readers of firings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ..bus import Bus, Committed
from ..errors import UnreachableError
from ..log import log
from ..protocol.partitions.fencing import Fencing
from .context import DelivererContext
from .ownership import DelivererOwnership

LOOK_S: Final = 0.2
AGAIN_S: Final = 5.0


@dataclass
class FencingStats:
    """Counts for `Fencing`. fenced: how many dead deliverers were fenced."""

    fenced: int = 0


@dataclass(frozen=True)
class _Member:
    """This deliverer, as `Fencing` needs it."""

    bus: Bus
    stats: FencingStats
    monotonic: Callable[[], float]


class DeadDeliverers:
    """Fences deliverers that died, while an open transaction blocks a takeover."""

    def __init__(self, context: DelivererContext, ownership: DelivererOwnership) -> None:
        bus, monotonic = context.bus, context.monotonic
        self._bus, self._ownership, self._monotonic = bus, ownership, monotonic
        self.stats = FencingStats()
        self._fencing = Fencing(_Member(bus, self.stats, monotonic))
        self._look_at = monotonic()

    def note_members(self) -> None:
        """Remember who is a member. Call it before joining, and at each assignment."""
        self._fencing.note_members()

    def note_committers(self, committed: Iterable[Committed | None]) -> None:
        """Remember who committed these offsets, before the next commits replace their names."""
        self._fencing.note_committers(committed)

    def look(self) -> None:
        """Fence dead deliverers if a takeover is blocked. Call it in each pass; it looks every LOOK_S."""
        now = self._monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        try:
            if self.is_blocked():
                self._fencing.note_blocked(self._ownership.assigned or ())
            else:
                self._fencing.note_unblocked()
        except UnreachableError as e:  # deliveries in flight do not depend on it
            log.warning("Cannot check whether a dead deliverer blocks this one; trying again: %s", e)
            self._look_at = now + AGAIN_S

    def is_blocked(self) -> bool:
        """Whether an open transaction hides offsets, or records of a partition that is being taken over."""
        ownership = self._ownership
        if ownership.blocked:
            return True
        positions = {tp: p.position for tp, p in ownership.partitions.items() if not p.is_recovered}
        if not positions:
            return False
        stable = self._bus.stable_offsets(positions)
        return any(position >= stable[tp] for tp, position in positions.items())
