"""Work that the brokers refuse: counts of aborted transactions, and pauses of partitions.

A partition is paused if one of its records can neither be processed nor written to the dead-letter topic. The
other partitions continue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from ...bus import TopicPartition
from ...log import log
from ..context import EngineContext
from ..outputs import Outputs

RETRY_S: Final = 5.0
# The first abort may have any reason; after the second, the transaction's dead letters are suspected.
SUSPICIOUS_ABORTS: Final = 2


class Partitions(Protocol):
    """What pauses partitions. `unread`: those that are not read, with the reason."""

    @property
    def unread(self) -> Mapping[TopicPartition, str]: ...

    def pause(self, tp: TopicPartition, reason: str) -> None: ...


class Aborts:
    """Counts the aborted transactions of one engine. `in_a_row`: since the last commit.

    A commit of other partitions, or of metadata only, does not show that the brokers accept the refused work.
    So aborts are also counted for each partition, until work on it is committed.
    """

    def __init__(self) -> None:
        self.in_a_row = 0
        self._by_partition: Counter[TopicPartition] = Counter()

    def aborted(self, worked: Iterable[TopicPartition]) -> None:
        """Count an aborted transaction with work on these partitions."""
        self.in_a_row += 1
        self._by_partition.update(worked)

    def committed(self, worked: Iterable[TopicPartition]) -> None:
        """End the counts: a transaction with work on these partitions was committed."""
        self.in_a_row = 0
        self.forget(worked)

    @property
    def counted(self) -> bool:
        """Whether any partition has a count."""
        return bool(self._by_partition)

    def of(self, tp: TopicPartition) -> int:
        """How many aborts this partition had since work on it was last committed."""
        return self._by_partition[tp]

    def worst(self) -> tuple[int, str]:
        """The largest count, and what it counts."""
        for tp, count in self._by_partition.most_common(1):
            if count > self.in_a_row:
                return count, f"with {tp}"
        return self.in_a_row, "in a row"

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Set the counts of these partitions to 0: they are paused, or their work was committed."""
        for tp in partitions:
            self._by_partition.pop(tp, None)

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the counts of all partitions but these."""
        self.forget(self._by_partition.keys() - set(partitions))


class Refusals:
    """Checks whether dead letters can be written, and pauses partitions until they can."""

    def __init__(self, context: EngineContext, partitions: Partitions) -> None:
        self._bus, self._partitions, self._monotonic = context.bus, partitions, context.monotonic
        self._config, self._topic = context.config, context.config.topic("dead-letter")
        self._paused: set[TopicPartition] = set()
        self._checked_at = self._monotonic()

    def refusal(self, outputs: Outputs) -> str:
        """Why the transaction cannot be committed with its dead letters; "" if it can, or has none.

        Without this check the producer would wait its whole timeout for a missing topic.
        """
        if not outputs.dead_lettered or self._topic_exists():
            return ""
        return f"Topic {self._topic!r} does not exist. Run: {self._config.command('topics create')}."

    def pause(self, partitions: Iterable[TopicPartition], reason: str) -> None:
        """Pause these partitions until the dead letters can be tried again."""
        self._checked_at = self._monotonic()
        for tp in partitions:
            self._paused.add(tp)
            self._partitions.pause(
                tp,
                "it has a record that can neither be processed nor written to the dead-letter topic. "
                f"{reason} Nothing is skipped; the engine tries again by itself.",
            )

    def may_try_again(self) -> bool:
        """Whether paused partitions should be taken over again now."""
        self._paused &= self._partitions.unread.keys()  # an assignment also takes over paused ones
        if not self._paused or self._monotonic() - self._checked_at < RETRY_S:
            return False
        self._checked_at = self._monotonic()
        if not self._topic_exists():
            return False
        log.info("%s: trying again to write dead letters.", ", ".join(map(str, sorted(self._paused))))
        self._paused.clear()
        return True

    def _topic_exists(self) -> bool:
        return self._bus.topics([self._topic])[self._topic] is not None
