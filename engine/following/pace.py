"""How much of a process's time a follower takes, so that what else runs there is not slowed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """work_s: how long it works at most before it rests. share: of the time in which it works, at most.

    idle_s: how long nobody asks until the thread ends. wait_s: how long it waits for new records at once.
    """

    work_s: float = 0.002
    share: float = 0.2
    idle_s: float = 600.0
    wait_s: float = 0.2
