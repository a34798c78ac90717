"""Work that the brokers refuse: counts of aborted transactions, and partitions paused for a dead letter.

A partition whose record can neither be processed nor written to the dead-letter topic is paused; the others
are read on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from ...bus import TopicPartition
from ...log import log
from ..context import EngineContext
from ..outputs import Outputs

AGAIN_S: Final = 5.0
# The first abort may have any reason; after the second one, dead letters in the transaction are suspected.
MOST_ABORTS: Final = 2


class Partitions(Protocol):
    """What pauses partitions. `unread`: those that are not read, with the reason."""

    @property
    def unread(self) -> Mapping[TopicPartition, str]: ...

    def pause(self, tp: TopicPartition, reason: str) -> None: ...


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


class Refusals:
    """Knows whether dead letters can be written, and which partitions wait until they can."""

    def __init__(self, context: EngineContext, partitions: Partitions) -> None:
        self._bus, self._partitions, self._monotonic = context.bus, partitions, context.monotonic
        self._config, self._topic = context.config, context.config.topic("dead-letter")
        self._held: set[TopicPartition] = set()
        self._looked = self._monotonic()

    def refusal(self, outputs: Outputs) -> str:
        """Why the transaction cannot be committed with its dead letters; "" where it can, or has none.

        A producer would wait for its whole timeout for a topic that is not there.
        """
        if not outputs.dead_lettered or self._is_there():
            return ""
        return f"Topic {self._topic!r} is not there. Run: {self._config.command('topics create')}."

    def hold(self, partitions: Iterable[TopicPartition], reason: str) -> None:
        """Read these no more, until it can be tried again."""
        self._looked = self._monotonic()
        for tp in partitions:
            self._held.add(tp)
            self._partitions.pause(
                tp,
                f"it has a record that cannot be processed and cannot be set aside. {reason} Nothing is "
                "skipped; it goes on by itself.",
            )

    def may_try_again(self) -> bool:
        """Whether partitions that are held back should be opened again now."""
        self._held &= self._partitions.unread.keys()  # an assignment opens all
        if not self._held or self._monotonic() - self._looked < AGAIN_S:
            return False
        self._looked = self._monotonic()
        if not self._is_there():
            return False
        log.info("%s: setting records aside is tried again.", ", ".join(map(str, sorted(self._held))))
        self._held.clear()
        return True

    def _is_there(self) -> bool:
        return self._bus.topics([self._topic])[self._topic] is not None
