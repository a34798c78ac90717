"""The states of the partitions that the group assigns to an engine, and the moves between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ...bus import TopicPartition

# The life of a partition:
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
# PAUSED ends by itself: the engine tries again. STOPPED ends when an administrator says where to continue. A
# takeover tries paused and stopped partitions again; they come back to their state if the reason still holds.


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
    """A mistake in the engine: this state does not follow that one."""


@dataclass(frozen=True)
class _Life:
    state: PartitionState
    since: float  # monotonic


class Lifecycle:
    """The state of each assigned partition. `reasons`: why the paused and the stopped ones are not read."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lives: dict[TopicPartition, _Life] = {}
        self.reasons: dict[TopicPartition, str] = {}

    def state(self, tp: TopicPartition) -> PartitionState:
        life = self._lives.get(tp)
        return UNASSIGNED if life is None else life.state

    def since(self, tp: TopicPartition) -> float | None:
        """When the partition came to its state, on the monotonic clock; None if it is not assigned."""
        life = self._lives.get(tp)
        return None if life is None else life.since

    def among(self, *states: PartitionState) -> list[TopicPartition]:
        """The partitions in one of these states, in the order in which they came to them."""
        return [tp for tp, life in self._lives.items() if life.state in states]

    def move(self, tp: TopicPartition, to: PartitionState, reason: str = "") -> None:
        """Move a partition to another state; a partition that is in it stays as it is.

        reason: why a partition is paused or stopped. Raises IllegalTransition for a move that `TRANSITIONS`
        does not have, and for a reason that is missing or that the state has no use for.
        """
        before = self.state(tp)
        if (to in NEEDS_REASON) != bool(reason):
            raise IllegalTransition(f"{tp}: a partition that is {to.value} has {reason!r} for its reason.")
        if to is before:
            return
        if to not in TRANSITIONS[before]:
            raise IllegalTransition(f"{tp} cannot become {to.value}: it is {before.value}.")
        self._lives.pop(tp, None)
        self.reasons.pop(tp, None)
        if to is not UNASSIGNED:
            self._lives[tp] = _Life(to, self._monotonic())
        if reason:
            self.reasons[tp] = reason

    def move_all(self, partitions: Iterable[TopicPartition], to: PartitionState) -> None:
        for tp in partitions:
            self.move(tp, to)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """A takeover of these begins. Others are not assigned any more."""
        for tp in [tp for tp in self._lives if tp not in partitions]:
            self.move(tp, UNASSIGNED)
        for tp in partitions:
            self.move(tp, RECOVERING)
