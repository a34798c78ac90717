"""Scans: groups of registrations that have seen a source partition up to a position behind the live one.

docs/understand/engine/look-back.md has the rules. Groups at one position are read together. A registration
joins a group only while the group's position is at or before the registration's first offset. So it sees its
events once, in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ....conditions import MatcherIndex
from ...registry.registry import Registered, Registry

# The offset metadata hold 4,095 characters, and a group takes at most 60 of them.
MAX_GROUPS = 46
MAX_POSITIONS = 4  # read in turns: a look-back of minutes must not wait for one of weeks
TURN = 20_000  # records; a change of position discards what was fetched ahead
LEAST_KEPT = 64  # members: an index with fewer is not cleaned, because few stale ones cost nothing


@dataclass
class ScanGroup:
    """Registrations with registry offsets in [start, end), which have seen the partition up to `position`.

    `begun`: records were read for it. Until then others may join it and move it to an earlier position.
    """

    start: int
    end: int
    position: int
    begun: bool = True

    def covers(self, registry_offset: int) -> bool:
        return self.start <= registry_offset < self.end


class Scans:
    """The scans in progress on one source partition."""

    def __init__(self, groups: list[tuple[int, int, int]]) -> None:
        self.groups = [ScanGroup(*group) for group in groups]
        self._at: int | None = None  # the position that is read now
        self._left = TURN

    def __bool__(self) -> bool:
        return bool(self.groups)

    @property
    def full(self) -> bool:
        """Whether there is no room for another group: then the registry is applied later."""
        return len(self.groups) >= MAX_GROUPS

    def covers(self, registry_offset: int) -> bool:
        return any(group.covers(registry_offset) for group in self.groups)

    def metadata(self) -> list[tuple[int, int, int]]:
        return [(group.start, group.end, group.position) for group in self.groups]

    def add(self, start: int, end: int, first: int) -> None:
        """Registrations in [start, end) must see the partition from offset `first` on."""
        last = self.groups[-1] if self.groups else None
        if last is not None and last.end == start:
            beyond = len({group.position for group in self.groups}) > MAX_POSITIONS
            if not last.begun and (beyond or last.position == first):
                last.end, last.position = end, min(last.position, first)
                return
            # A new member sees no event below its first offset: it may join a scan that has begun below that.
            if last.begun and last.position == self._at and last.position <= first:
                last.end = end
                return
        self.groups.append(ScanGroup(start, end, first, begun=False))

    # -- reading

    def position(self) -> int:
        """Where to read next. Switches to the next position when the turn of the current one has ended."""
        positions = sorted({group.position for group in self._admitted()})
        if self._at not in positions or self._left <= 0:
            later = [p for p in positions if self._at is not None and p > self._at]
            self._at = later[0] if later else positions[0]
            self._left = TURN
        return self._at

    @property
    def current(self) -> int:
        """The position that `position` chose, -1 before it was called."""
        return -1 if self._at is None else self._at

    def front(self, offset: int) -> list[ScanGroup]:
        """The groups for which the record at `offset` is read: those from the current position up to it."""
        at = self._at
        return [] if at is None else [group for group in self.groups if at <= group.position <= offset]

    def advance(self, to: int, records: int = 1) -> None:
        """Note that reading has reached `to`. The groups whose positions it passed continue together."""
        at = self._at
        if at is None:
            return
        for group in self.groups:
            if at <= group.position <= to:
                group.position, group.begun = to, True
        self._at = to
        self._left -= records

    def finish(self, live: int) -> bool:
        """Remove the groups that have reached the live position; True if there were any."""
        left = [group for group in self.groups if group.position < live]
        finished = len(left) != len(self.groups)
        self.groups = left
        return finished

    def _admitted(self) -> list[ScanGroup]:
        """The groups that may be read: those at the first MAX_POSITIONS positions."""
        positions: set[int] = set()
        admitted = []
        for group in self.groups:
            if group.position in positions or len(positions) < MAX_POSITIONS:
                positions.add(group.position)
                admitted.append(group)
        return admitted


class ScanIndex:
    """An index of the registrations in the scans of all partitions of an engine.

    It may contain more than the groups of one partition cover: check each hit against the groups. `keep`
    removes registrations that no group covers any more, `forget` one that the registry removed.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._errors: Counter[str] = Counter()  # of earlier indexes
        self._reset()

    def _reset(self) -> None:
        self._index: MatcherIndex[Registered] = MatcherIndex()
        self._intervals: set[tuple[int, int]] = set()
        self._members: dict[int, Registered] = {}  # all members of the index, by registry offset
        self._most = LEAST_KEPT

    def __len__(self) -> int:
        return len(self._members)

    @property
    def crowded(self) -> bool:
        """Whether much of it may be stale, so that the caller should call `keep`."""
        return len(self._members) > self._most or len(self._intervals) > self._most

    def of(self, groups: list[ScanGroup]) -> MatcherIndex[Registered]:
        """The index, after adding all registrations in force that these groups cover."""
        for group in groups:
            interval = (group.start, group.end)
            if interval not in self._intervals:
                self._intervals.add(interval)
                for registered in self._registry.between(*interval):
                    if registered.offset not in self._members:
                        self._members[registered.offset] = registered
                        self._index.add(registered, registered.condition, registered.registration.key)
        return self._index

    def keep(self, groups: Iterable[ScanGroup]) -> None:
        """Remove all registrations that no group covers. groups: those of all partitions."""
        intervals = {(group.start, group.end) for group in groups}
        for offset in list(self._members):
            if not any(start <= offset < end for start, end in intervals):
                self._index.remove(self._members.pop(offset))
        self._intervals &= intervals
        self._most = max(LEAST_KEPT, 2 * len(self._members), 2 * len(self._intervals))

    def forget(self, registered: Registered) -> None:
        """Remove a registration that the registry removed."""
        if self._members.pop(registered.offset, None) is not None:
            self._index.remove(registered)

    def clear(self) -> None:
        """Remove all registrations: no partition has a scan."""
        if self._intervals:
            self._errors += self._index.errors
            self._reset()

    def take_errors(self) -> Counter[str]:
        """{text of a filter: on how many events of scans it failed} since the last call."""
        taken = self._errors + self._index.errors
        self._errors.clear()
        self._index.errors.clear()
        return taken
