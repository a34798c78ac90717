"""The watchdog: a loop that makes no pass is given up and replaced, so that nothing stops silently."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from .part import Part, Turn

LOOK_S: Final = 1.0
# Longer than the longest wait of a pass that still comes back by itself (a registry that is not read on:
# 30 s, a commit and its abort: 10 s each), and than `kafka.bus.MAX_POLL_INTERVAL_MS`: the one that hangs is
# out of the group by then, and the new one is given partitions at once.
SILENT_S: Final = 60.0
START_S: Final = 300.0  # before the first pass the whole registry is read
MOST_S: Final = 3600.0


class Watchdog:
    """Looks at the parts of a runtime, in a thread of its own that asks Kafka nothing."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._signs: dict[Part, tuple[Turn, int]] = {}
        self._silent_s = dict.fromkeys(parts, 0.0)

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_S):
            self.look()

    def look(self) -> None:
        """Called every LOOK_S. Looks are counted, not time: a process that was suspended is not stuck."""
        for part in self._parts:
            sign = part.sign
            if self._signs.get(part) != sign:
                self._signs[part], self._silent_s[part] = sign, 0.0
                continue
            self._silent_s[part] += LOOK_S
            if self._silent_s[part] >= patience_s(part):
                part.replace(
                    f"made no pass for {self._silent_s[part]:.0f} s and is replaced; it starts again from "
                    "what is committed."
                )


def patience_s(part: Part) -> float:
    """How long a part may be silent; longer with each thread that hangs, since what it holds is not freed."""
    _, passes = part.sign
    first: float = START_S if passes == 0 else SILENT_S
    return min(MOST_S, first * 2.0**part.stuck)
