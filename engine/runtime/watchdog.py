"""The watchdog: a loop that makes no pass is given up and replaced, so that nothing stops silently."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from ..log import log
from .loop_thread import Part, Turn

LOOK_S: Final = 1.0
# Longer than the longest waits of a pass that still comes back by itself (a registry that is not read on:
# 30 s, a commit and its abort: 10 s each; a second commit follows only an abort that was answered), and than
# `kafka.bus.MAX_POLL_INTERVAL_MS`: the one that hangs is out of the group by then, and the new one is given
# partitions at once.
SILENT_S: Final = 60.0
START_S: Final = 300.0  # before the first pass the whole registry is read
MOST_S: Final = 3600.0
AGAIN_S: Final = 10.0
# The one that hangs now and two that still do: what they hang in does not pass by itself.
MOST_HUNG: Final = 3


class Watchdog:
    """Looks at the parts of a runtime, in a thread of its own that asks Kafka nothing.

    give_up: called with the reason, in place of one more thread, once MOST_HUNG threads of a part hang: for
    a process that has no other work, and ends. Without it a part is replaced again and again.
    """

    def __init__(self, parts: Sequence[Part], give_up: Callable[[str], None] | None = None) -> None:
        self._parts, self._give_up = parts, give_up
        self._signs: dict[Part, tuple[Turn, int]] = {}
        self._silent_s = dict.fromkeys(parts, 0.0)

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_S):
            self.look()

    def look(self) -> None:
        """Called every LOOK_S. Looks are counted, not time: a process that was suspended is not stuck.

        A part that cannot be replaced (no thread can be started) is tried again, and stops no other.
        """
        for part in self._parts:
            try:
                self._look_at(part)
            except Exception:  # noqa: BLE001  # else nothing would be watched any more
                log.exception("%s could not be replaced; that is tried again in %.0f s.", part.name, AGAIN_S)
                # What is left of the old life gives no sign, nor did a new one begin.
                self._signs[part], self._silent_s[part] = part.sign, patience_s(part) - AGAIN_S

    def _look_at(self, part: Part) -> None:
        sign = part.sign
        if self._signs.get(part) != sign:
            self._signs[part], self._silent_s[part] = sign, 0.0
            return
        self._silent_s[part] += LOOK_S
        if self._silent_s[part] < patience_s(part):
            return
        silent = f"made no pass for {self._silent_s[part]:.0f} s"
        if self._give_up is not None and part.threads >= MOST_HUNG:
            self._give_up(
                f"{part.name} {silent}, and {part.threads - 1} threads before this one still hang: the "
                f"process ends, and is to be started anew. It was last seen here:\n{part.where}"
            )
        else:
            part.replace(f"{silent} and is replaced; it starts again from what is committed.")


def patience_s(part: Part) -> float:
    """How long a part may be silent; longer with each thread that hangs, since what it holds is not freed."""
    _, passes = part.sign
    first: float = START_S if passes == 0 else SILENT_S
    return min(MOST_S, first * 2.0**part.stuck)
