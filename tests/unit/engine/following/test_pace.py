"""How a follower rests: in proportion to the processor time that it took."""

from __future__ import annotations

import pytest
from interlock.engine.following import pace as module
from interlock.engine.following.pace import Pace, Rests


class Slept:
    """A stop event that nobody sets, and how long was waited for it."""

    def __init__(self) -> None:
        self.rests: list[float] = []

    def wait(self, timeout: float) -> bool:
        self.rests.append(round(timeout, 6))
        return False


def test_it_rests_after_enough_work_as_long_as_its_share_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(module.time, "thread_time", lambda: now)
    stop = Slept()
    rests = Rests(Pace(work_s=0.002, share=0.2), stop)  # type: ignore[arg-type]
    for step_s in (0.001, 0.0005, 0.001, 0.001, 0.0400):
        now += step_s
        rests.after_work()
    assert stop.rests == [0.01, 0.164]
