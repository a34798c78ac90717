"""Recovery: reading the states of trigger partitions from the state topic, during a takeover."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...bus import End, TopicPartition
from ...errors import EngineError
from ..context import EngineContext
from ..tasks.trigger_task import TriggerTask
from .fencing import BLOCKED_S

TAKE: Final = 10_000
TAKE_TIMEOUT_S: Final = 0.1
STALL_S: Final = 60.0  # without a record for this long, the reader will not reach the end


class Recovery:
    """Loads state partitions, up to their ends, into their tasks; some records in each pass."""

    def __init__(
        self,
        context: EngineContext,
        tasks: Mapping[TopicPartition, TriggerTask],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        self._tasks, self._stats, self._monotonic = tasks, context.stats, context.monotonic
        self._reader = context.bus.reader()
        self._last = self._monotonic()
        self._left = {tp: end for tp, end in ends.items() if end > 0}
        if self._left:
            self._reader.read(dict.fromkeys(self._left, 0))

    @property
    def blocked(self) -> bool:
        """Whether no record has come for a while: probably an open transaction blocks the reader."""
        return bool(self._left) and self._monotonic() - self._last > BLOCKED_S

    def advance(self) -> bool:
        """Load what has arrived; True when all partitions are read to their ends."""
        if self._left:
            items = self._reader.take(TAKE, TAKE_TIMEOUT_S)
            for item in items:
                if isinstance(item, End):
                    reached = item.offset
                else:
                    self._tasks[item.source].load(item)
                    self._stats.recovered_records += 1
                    self._last = self._monotonic()
                    reached = item.offset + 1
                if reached >= self._left.get(item.source, reached + 1):
                    self._left.pop(item.source)
            if self._left and self._monotonic() - self._last > STALL_S:
                left = ", ".join(f"{tp} up to {end}" for tp, end in self._left.items())
                raise EngineError(f"State could not be read: {left}; nothing came for {STALL_S:.0f} s.")
        return not self._left

    def close(self) -> None:
        self._reader.close()
