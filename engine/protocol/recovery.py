"""Recovery: the states of a partition, read back from the state topic by the engine that takes it over."""

from __future__ import annotations

from collections.abc import Callable

from ..bus import End, Reader, TopicPartition
from ..errors import EngineError
from .trigger_task import TriggerTask

TAKE = 2000
TAKE_TIMEOUT_S = 0.1
STALL_S = 30.0  # a reader that gets nothing for so long will not get there


class Recovery:
    """Reads state partitions up to their ends into their tasks, a bit at a time."""

    def __init__(
        self,
        reader: Reader,
        tasks: dict[TopicPartition, TriggerTask],
        ends: dict[TopicPartition, int],
        monotonic: Callable[[], float],
    ) -> None:
        self._reader, self._tasks, self._monotonic = reader, tasks, monotonic
        self._deadline = monotonic() + STALL_S
        self._left = {tp: end for tp, end in ends.items() if end > 0}
        self._reader.read(dict.fromkeys(self._left, 0))

    def advance(self) -> bool:
        """Read what has arrived; True when all are read to their ends."""
        if self._left:
            items = self._reader.take(TAKE, TAKE_TIMEOUT_S)
            for item in items:
                if isinstance(item, End):
                    reached = item.offset
                else:
                    self._tasks[item.source].load(item)
                    reached = item.offset + 1
                if reached >= self._left.get(item.source, reached + 1):
                    self._left.pop(item.source)
            if items:
                self._deadline = self._monotonic() + STALL_S
            elif self._monotonic() > self._deadline:
                left = ", ".join(f"{tp} up to {end}" for tp, end in self._left.items())
                raise EngineError(f"State could not be read: {left}; nothing came for {STALL_S:.0f} s.")
        return not self._left

    def close(self) -> None:
        self._reader.close()
