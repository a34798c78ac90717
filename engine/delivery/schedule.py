"""Which sink may start the next delivery."""

from __future__ import annotations

from collections.abc import Iterator

from .firings import OpenFiring
from .lanes import SinkLanes


class Schedule:
    """Decides which sinks start a delivery. They share `slots`; each has one more slot, of its own.

    So sinks that answer slowly may use up all that is shared, but no other sink waits for them.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.sinks: dict[str, SinkLanes] = {}
        self._last = ""  # the sink that got a slot last

    @property
    def in_flight(self) -> int:
        """How many deliveries are in flight."""
        return sum(sink.in_flight for sink in self.sinks.values())

    def start(self, now: float) -> Iterator[tuple[str, OpenFiring]]:
        """Yields (subscription, firing) for each delivery that begins now; sinks take turns."""
        shared = self.slots - sum(max(0, sink.in_flight - 1) for sink in self.sinks.values())
        names = [name for name, sink in self.sinks.items() if sink.may_start(now)]
        if self._last in names:  # begin with the sink after that one
            at = names.index(self._last) + 1
            names = names[at:] + names[:at]
        while names:
            left = []
            for name in names:
                sink = self.sinks[name]
                own = sink.in_flight == 0
                if not own and shared <= 0:
                    continue
                firing = sink.start(now)
                if firing is None:
                    continue
                shared -= not own
                self._last = name
                left.append(name)
                yield name, firing
            names = left

    def next_due(self, now: float) -> float | None:
        """The earliest time at which a delivery may begin; None if it needs an answer or firing first."""
        dues = (sink.next_due(now) for sink in self.sinks.values())
        return min((due for due in dues if due is not None), default=None)
