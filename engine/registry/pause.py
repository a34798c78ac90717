"""How long a topic that tells of removals may go unread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..bus import TopicPartition
from ..errors import EngineError

# A quarter of the registry's min.compaction.lag, a day: what is removed later is not seen to be removed.
MOST_PAUSE_S: Final = 6 * 3600.0


class Pause:
    """Notices that a reader stood still, by either clock: a process that was stopped, or a machine that was
    suspended, whose monotonic clock may have stood still.
    """

    def __init__(
        self, topic: TopicPartition, clock: Callable[[], float], monotonic: Callable[[], float]
    ) -> None:
        self._topic, self._clock, self._monotonic = topic, clock, monotonic
        self._read_at = self._now()

    def look(self) -> None:
        """After each read. EngineError where the one before was MOST_PAUSE_S ago: read from the start."""
        before, self._read_at = self._read_at, self._now()
        pause_s = max(now - then for now, then in zip(self._read_at, before, strict=True))
        if pause_s > MOST_PAUSE_S:
            raise EngineError(
                f"{self._topic} was not read for {pause_s / 3600:.1f} hours, as by a process that was stopped"
                " or a machine that was suspended: removals of that time may be compacted away. It is read"
                " from its start again."
            )

    def _now(self) -> tuple[float, float]:
        return self._clock(), self._monotonic()
