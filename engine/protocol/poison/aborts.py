"""How often transactions were aborted: in a row, and over the work of one partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from ...bus import TopicPartition


class Aborts:
    """Of one engine. `in_a_row`: since anything was committed.

    What is committed in between, of other partitions or that a record is tried, says nothing of work that
    brokers refuse. So aborts are counted by partition as well, until work on it is committed.
    """

    def __init__(self) -> None:
        self.in_a_row = 0
        self._over: Counter[TopicPartition] = Counter()

    def aborted(self, worked: Iterable[TopicPartition]) -> None:
        """A transaction over the work on these was aborted."""
        self.in_a_row += 1
        self._over.update(worked)

    def committed(self, worked: Iterable[TopicPartition]) -> None:
        """A transaction over the work on these was committed."""
        self.in_a_row = 0
        self.forget(worked)

    @property
    def counted(self) -> bool:
        """Whether any partition has a count."""
        return bool(self._over)

    def over(self, tp: TopicPartition) -> int:
        """How many aborts the work on this partition has had since some of it was committed."""
        return self._over[tp]

    def worst(self) -> tuple[int, str]:
        """The largest count, and what it is of."""
        for tp, count in self._over.most_common(1):
            if count > self.in_a_row:
                return count, f"over {tp}"
        return self.in_a_row, "in a row"

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These wait, or were moved on."""
        for tp in partitions:
            self._over.pop(tp, None)

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Only these are this engine's now."""
        self.forget(self._over.keys() - set(partitions))
