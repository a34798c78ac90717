"""Fencing: ending the open transactions of dead engines, which block takeovers and readers.

docs/understand/engine/takeover.md "Fencing dead engines" has the numbered steps. Deliverers do the same in
their group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Final, Protocol

import msgspec

from ...bus import Bus, Committed, TopicPartition
from ...errors import RecordError, UnreachableError
from ...log import log
from ...records import decode_json

BLOCKED_S: Final = 0.5
ROUND_S: Final = 1.0
# A coordinator that does not answer takes 10 s for each engine, and the next poll must come before the group
# excludes this member (45 s).
MOST_ROUND_S: Final = 10.0
MOST_INTERVAL_S: Final = 60.0  # between unanswered requests for the members, which may take 10 s each


class Counter(Protocol):
    fenced: int


class Member(Protocol):
    """What fencing needs of the member that fences."""

    @property
    def bus(self) -> Bus: ...
    @property
    def stats(self) -> Counter: ...
    @property
    def monotonic(self) -> Callable[[], float]: ...


class Fencing:
    """Fences members that left the group without ending their transaction, while this one is blocked.

    Kafka does not say who opened a transaction. Candidates are those that were members when this one joined
    or got an assignment, the former owners of its partitions, and the last committers of partitions.
    """

    def __init__(self, member: Member) -> None:
        self._bus, self._stats, self._monotonic = member.bus, member.stats, member.monotonic
        self._candidates: set[str] = set()
        self._fenced: set[str] = set()  # ids are never used again, so once is enough
        self._tried_at: dict[str, float] = {}  # those that could not be fenced
        self._unreadable: set[str] = set()  # what is wrong with metadata, as logged
        self._blocked_since: float | None = None
        self._last_round = self._monotonic() - ROUND_S
        self._ask_again_at: float | None = None  # when to ask for the members again, after a failure
        self._ask_interval_s = ROUND_S
        self.members: frozenset[str] | None = None  # of the group; None if the last request failed

    def note_members(self) -> None:
        """Remember the members of the group. Called at the start, and at each new assignment.

        If the coordinator does not answer, `note_unblocked` and `note_blocked` ask again.
        """
        self._candidates |= self._ask_for_members() or frozenset()

    def _ask_for_members(self) -> frozenset[str] | None:
        """The members of the group; None if the coordinator does not answer: then nobody counts as dead."""
        try:
            self.members = self._bus.members()
            self._ask_again_at, self._ask_interval_s = None, ROUND_S
        except UnreachableError as e:
            log.warning("Could not list the members of the group; trying again: %s", e)
            self.members, self._ask_again_at = None, self._monotonic() + self._ask_interval_s
            self._ask_interval_s = min(2 * self._ask_interval_s, MOST_INTERVAL_S)
        return self.members

    def _retry_members(self) -> None:
        if self._ask_again_at is not None and self._monotonic() >= self._ask_again_at:
            self.note_members()

    def note_committers(self, committed: Iterable[Committed | None]) -> None:
        """Remember who made these commits, before the next commits replace their names."""
        self._candidates |= self._committers(committed)

    def note_unblocked(self) -> None:
        """No open transaction blocks this member."""
        self._blocked_since = None
        self._retry_members()

    def note_blocked(self, partitions: Iterable[TopicPartition]) -> None:
        """Fence dead engines if the block lasts. partitions: their last committers are candidates too.

        Engines for which a round has no time come first in the next round.
        """
        now = self._monotonic()
        if self._blocked_since is None:
            self._blocked_since = now
        if now - self._blocked_since < BLOCKED_S or now - self._last_round < ROUND_S:
            return
        if self._ask_again_at is not None and now < self._ask_again_at:
            return
        self._last_round = now
        members = self._ask_for_members()
        if members is None:
            return
        if self._bus.transactional_id not in members:
            # This engine has partitions, so it is a member. The client forgets that the coordinator refused,
            # if another broker answers with other groups (no. 23 in docs/understand/engine/pitfalls.md).
            self.members = None
            return
        committed = self._bus.committed(partitions, stable=False) or {}
        dead = (self._candidates | self._committers(committed.values())) - members - self._fenced
        dead -= {self._bus.transactional_id}
        self._candidates = set(members | dead)
        began = self._monotonic()
        for committer in sorted(dead, key=lambda name: (self._tried_at.get(name, -inf), name)):
            if self._monotonic() - began >= MOST_ROUND_S:
                return
            log.warning("%s has left the group: its open transaction, if any, is ended.", committer)
            try:
                self._bus.fence(committer)
            except UnreachableError as e:
                log.warning("Could not end the open transaction of %s; trying again: %s", committer, e)
                self._tried_at[committer] = self._monotonic()
                continue
            self._candidates.discard(committer)
            self._tried_at.pop(committer, None)
            self._fenced.add(committer)
            self._stats.fenced += 1

    def _committers(self, all_committed: Iterable[Committed | None]) -> set[str]:
        """Who made these commits. Metadata that cannot be read are logged, but not again in each round."""
        found, unreadable = set(), set()
        for committed in all_committed:
            if committed is None or not committed.metadata:
                continue
            try:
                found.add(decode_json(Committer, committed.metadata, "An offset's metadata").committer)
            except RecordError as e:
                unreadable.add(str(e))
        for text in sorted(unreadable - self._unreadable):
            log.error("%s", text)
        self._unreadable = unreadable
        return found - {""}


class Committer(msgspec.Struct):
    """What the metadata of all groups have: who committed them."""

    v: int
    committer: str = msgspec.field(default="", name="c")
