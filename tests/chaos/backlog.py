"""When engines were working off a backlog: meanwhile a firing may be late without a fault of theirs."""

from __future__ import annotations

from collections.abc import Mapping

# Records of one partition that wait for engines. The load writes at most some 100 a second to all of them.
MANY = 300


class Backlog:
    """Notes the looks at which many records of a partition waited, and its offset had grown since the last.

    A partition whose offset stands still is no excuse. times_ms: the times of those looks, in order.
    """

    def __init__(self) -> None:
        self.times_ms: list[int] = []
        self._committed: Mapping[tuple[str, int], int] = {}

    def look(
        self, committed: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int], at_ms: int
    ) -> None:
        """committed: the group's offsets. ends: the partitions' ends, read before them."""
        before, self._committed = self._committed, dict(committed)
        if any(
            ends.get(at, 0) - offset >= MANY and offset > before.get(at, offset)
            for at, offset in committed.items()
        ):
            self.times_ms.append(at_ms)
