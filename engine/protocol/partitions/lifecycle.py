"""The states of the partitions that the group assigns to an engine, and the moves between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ...bus import TopicPartition

# The states of a partition:
#
#                 +------------+
#                 | UNASSIGNED |   from every other state, when the group takes the partition away
#                 +-----+------+
#                       |  the group assigns the partition
#                       v
#                 +------------+    open transaction of a dead engine    +---------+
#     +---------->| RECOVERING |---------------------------------------->| BLOCKED |
#     |           |            |<----------------------------------------|         |
#     |           +-----+------+    the transaction has ended            +---------+
#     |                 |
#     |                 +---------------------+------------------------+
#     |                 |  recovered          |  cannot be read now    |  records are missing
#     |                 v                     v                        v
#     |           +------------+        +------------+           +------------+
#     |           |    OPEN    |------->|   PAUSED   |           |  STOPPED   |
#     |           +-----+------+   (1)  +-----+------+           +-----+------+
#     |                 |  taken over         |  the reason            |  `topics resume`
#     |                 |  again              |  may have passed       |
#     +-----------------+---------------------+------------------------+
#
# (1) A record can neither be processed nor written to the dead-letter topic.
#
# A deliverer's partitions of the action topic have these states too, without PAUSED and STOPPED.
#
# PAUSED ends by itself: the engine tries again. STOPPED ends when an administrator says where to continue. A
# takeover also tries paused and stopped partitions; they return to their state if the reason still holds.


class PartitionState(Enum):
    """What an engine does with a partition. It reads, and commits, open partitions only."""

    UNASSIGNED = "unassigned"
    RECOVERING = "recovering"
    BLOCKED = "blocked"
    OPEN = "open"
    PAUSED = "paused"
    STOPPED = "stopped"


UNASSIGNED, RECOVERING, BLOCKED, OPEN, PAUSED, STOPPED = PartitionState

TRANSITIONS: Final[Mapping[PartitionState, frozenset[PartitionState]]] = {
    UNASSIGNED: frozenset({RECOVERING}),
    RECOVERING: frozenset({BLOCKED, OPEN, PAUSED, STOPPED, UNASSIGNED}),
    BLOCKED: frozenset({RECOVERING, UNASSIGNED}),
    OPEN: frozenset({RECOVERING, PAUSED, UNASSIGNED}),
    PAUSED: frozenset({RECOVERING, UNASSIGNED}),
    STOPPED: frozenset({RECOVERING, UNASSIGNED}),
}
NEEDS_REASON: Final = frozenset({PAUSED, STOPPED})


class IllegalTransition(Exception):
    """A bug in the engine: this move between states is not allowed."""


@dataclass(frozen=True)
class _Current:
    state: PartitionState
    since: float  # monotonic


class Lifecycle:
    """The state of each assigned partition. `reasons`: why paused and stopped ones are not read."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._current: dict[TopicPartition, _Current] = {}
        self.reasons: dict[TopicPartition, str] = {}

    def state(self, tp: TopicPartition) -> PartitionState:
        current = self._current.get(tp)
        return UNASSIGNED if current is None else current.state

    def since(self, tp: TopicPartition) -> float | None:
        """When the partition entered its state, on the monotonic clock; None if it is not assigned."""
        current = self._current.get(tp)
        return None if current is None else current.since

    def among(self, *states: PartitionState) -> list[TopicPartition]:
        """The partitions in one of these states, in the order in which they entered it."""
        return [tp for tp, current in self._current.items() if current.state in states]

    def move(self, tp: TopicPartition, to: PartitionState, reason: str = "") -> None:
        """Move a partition to a state, unless it is in that state.

        reason: for paused and stopped, and only these. Raises IllegalTransition if it is missing or
        superfluous, or if `TRANSITIONS` does not have the move.
        """
        before = self.state(tp)
        if (to in NEEDS_REASON) != bool(reason):
            raise IllegalTransition(f"{tp} cannot become {to.value} with the reason {reason!r}.")
        if to is before:
            return
        if to not in TRANSITIONS[before]:
            raise IllegalTransition(f"{tp} cannot become {to.value}: it is {before.value}.")
        self._current.pop(tp, None)
        self.reasons.pop(tp, None)
        if to is not UNASSIGNED:
            self._current[tp] = _Current(to, self._monotonic())
        if reason:
            self.reasons[tp] = reason

    def move_all(self, partitions: Iterable[TopicPartition], to: PartitionState) -> None:
        for tp in partitions:
            self.move(tp, to)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Move these partitions to RECOVERING, and all others to UNASSIGNED."""
        for tp in [tp for tp in self._current if tp not in partitions]:
            self.move(tp, UNASSIGNED)
        for tp in partitions:
            self.move(tp, RECOVERING)
