"""Fencing: ending the open transactions of dead engines, which block takeovers and readers.

docs/understand/engine/takeover.md "Fencing dead engines" has the numbered steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...bus import Committed, TopicPartition
from ...errors import RecordError, UnreachableError
from ...log import log
from ...records import OffsetMetadata, decode_json
from ..context import EngineContext

BLOCKED_S: Final = 0.5
ROUND_S: Final = 1.0
MOST_APART_S: Final = 60.0  # between two requests for the members while none is answered: each may take 10 s


class Fencing:
    """Fences engines that left the group without ending their transaction, while this engine is blocked.

    Kafka does not say whose an open transaction is. Candidates are the engines that were members when this
    one joined or got an assignment, those whose partitions it took over, and those that made the last commit
    of a partition.
    """

    def __init__(self, context: EngineContext) -> None:
        self._bus, self._stats, self._monotonic = context.bus, context.stats, context.monotonic
        self._seen: set[str] = set()
        self._fenced: set[str] = set()  # no other engine ever has the same id, so once is enough
        self._blocked_since: float | None = None
        self._last_round = self._monotonic() - ROUND_S
        self._to_look: float | None = None  # when to ask for the members again, after a failure
        self._apart_s = ROUND_S
        self.members: frozenset[str] | None = None  # of the group; None if the last request failed

    def note_members(self) -> None:
        """Remember the members: at the start, and at each new assignment, which lists all who joined.

        If the coordinator does not answer, `unblocked` and `blocked` ask again.
        """
        self._seen |= self._ask_for_members() or frozenset()

    def _ask_for_members(self) -> frozenset[str] | None:
        """The members of the group; None if the coordinator does not answer: nobody is presumed dead."""
        try:
            self.members = self._bus.members()
            self._to_look, self._apart_s = None, ROUND_S
        except UnreachableError as e:
            log.warning("The members of the group are unknown; asking again: %s", e)
            self.members, self._to_look = None, self._monotonic() + self._apart_s
            self._apart_s = min(2 * self._apart_s, MOST_APART_S)
        return self.members

    def _look_again(self) -> None:
        if self._to_look is not None and self._monotonic() >= self._to_look:
            self.note_members()

    def note_committers(self, committed: Iterable[Committed | None]) -> None:
        """Remember who made these commits: the next commit of each partition replaces the name."""
        self._seen |= _committers(committed)

    def unblocked(self) -> None:
        """No open transaction blocks this engine."""
        self._blocked_since = None
        self._look_again()

    def blocked(self, partitions: Iterable[TopicPartition]) -> None:
        """Something waits for an open transaction. partitions: those of the whole group."""
        now = self._monotonic()
        if self._blocked_since is None:
            self._blocked_since = now
        if now - self._blocked_since < BLOCKED_S or now - self._last_round < ROUND_S:
            return
        if self._to_look is not None and now < self._to_look:
            return
        self._last_round = now
        members = self._ask_for_members()
        if members is None:
            return
        committed = self._bus.committed(partitions, stable=False) or {}
        dead = (self._seen | _committers(committed.values())) - members - self._fenced
        self._seen = set(members)
        for committer in sorted(dead - {self._bus.transactional_id}):
            log.warning("Engine %s is no member any more: what it has open is ended.", committer)
            try:
                self._bus.fence(committer)
            except UnreachableError as e:
                log.warning(
                    "What engine %s has open could not be ended, which is tried again: %s", committer, e
                )
                self._seen.add(committer)
                continue
            self._fenced.add(committer)
            self._stats.buried += 1


def _committers(all_committed: Iterable[Committed | None]) -> set[str]:
    found = set()
    for committed in all_committed:
        if committed is None or not committed.metadata:
            continue
        try:
            found.add(decode_json(OffsetMetadata, committed.metadata, "An offset's metadata").c)
        except RecordError as e:
            log.error("%s", e)
    return found - {""}
