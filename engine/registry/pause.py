"""Detects that a process did not read the registry for so long that it may have missed removals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..bus import TopicPartition
from ..errors import EngineError

# A removal may be compacted away after the registry's min.compaction.lag.ms, a day; this is a quarter of it.
MOST_PAUSE_S: Final = 6 * 3600.0


class ReadPause:
    """Detects that a reader was paused: its process was stopped, or its machine was suspended.

    Uses both clocks, because the monotonic clock may not run while a machine is suspended.
    """

    def __init__(
        self, topic: TopicPartition, clock: Callable[[], float], monotonic: Callable[[], float]
    ) -> None:
        self._topic, self._clock, self._monotonic = topic, clock, monotonic
        self._read_at = self._now()

    def check(self) -> None:
        """Called after each read. Raises EngineError if the last call was more than MOST_PAUSE_S ago."""
        before, self._read_at = self._read_at, self._now()
        pause_s = max(now - then for now, then in zip(self._read_at, before, strict=True))
        if pause_s > MOST_PAUSE_S:
            raise EngineError(
                f"{self._topic} was not read for {pause_s / 3600:.1f} hours (the process was stopped or the"
                " machine suspended), so removals may have been compacted away. Interlock reads it again from"
                " its start."
            )

    def _now(self) -> tuple[float, float]:
        return self._clock(), self._monotonic()
