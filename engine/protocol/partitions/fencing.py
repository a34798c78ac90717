"""Fencing: ending the open transactions of engines that died, so that they hold nobody back.

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

HELD_BACK_S: Final = 0.5
ROUND_S: Final = 1.0
MOST_APART_S: Final = 60.0  # questions for the members that are not answered: each may take ten seconds


class Fencing:
    """Notices that this engine is held back, and buries engines that are no members any more.

    An open transaction tells nobody whose it is. It can be of an engine that was a member when this one
    looked, of one whose partitions it took over, or of one that committed last on a partition.
    """

    def __init__(self, context: EngineContext) -> None:
        self._bus, self._stats, self._monotonic = context.bus, context.stats, context.monotonic
        self._seen: set[str] = set()
        self._fenced: set[str] = set()  # an engine's id is its own for ever: once is enough
        self._held_since: float | None = None
        self._last_round = self._monotonic() - ROUND_S
        self._to_look: float | None = None  # when the members are asked for again, which was in vain
        self._apart_s = ROUND_S
        self.known: frozenset[str] | None = None  # the members, by the last answer; None: there was none

    def look(self) -> None:
        """Remember who is a member now: at the start, and at each new assignment, which has all who joined.

        A coordinator that does not answer is asked again by `goes_on` and `held_back`.
        """
        self._seen |= self._members() or frozenset()

    def _members(self) -> frozenset[str] | None:
        """Who is in the group now; None where that is not told: it is nobody's death."""
        try:
            self.known = self._bus.members()
            self._to_look, self._apart_s = None, ROUND_S
        except UnreachableError as e:
            log.warning("The members of the group are not known, which is asked again: %s", e)
            self.known, self._to_look = None, self._monotonic() + self._apart_s
            self._apart_s = min(2 * self._apart_s, MOST_APART_S)
        return self.known

    def _look_again(self) -> None:
        if self._to_look is not None and self._monotonic() >= self._to_look:
            self.look()

    def took_over(self, committed: Iterable[Committed | None]) -> None:
        """Remember who had committed these: the next commit writes another name over theirs."""
        self._seen |= _committers(committed)

    def goes_on(self) -> None:
        """Nothing holds this engine back."""
        self._held_since = None
        self._look_again()

    def held_back(self, partitions: Iterable[TopicPartition]) -> None:
        """Something waits for an open transaction; `partitions`: those of the whole group."""
        now = self._monotonic()
        if self._held_since is None:
            self._held_since = now
        if now - self._held_since < HELD_BACK_S or now - self._last_round < ROUND_S:
            return
        if self._to_look is not None and now < self._to_look:
            return
        self._last_round = now
        members = self._members()
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
