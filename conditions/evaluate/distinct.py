"""`at_least(distinct=)`: n matchers that are met by events whose values all differ (cases N4 to N6).

The matchers and the values are the two sides of a bipartite graph, and a choice is what graph theory calls a
matching in it. Adding the matchers one by one, each by an augmenting path, finds the first n of them that can
be met together, because the sets of matchers that can be met together are the independent sets of a matroid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .evaluation import MatcherNode, Node
from .view import Found, Partial, Parts, View

if TYPE_CHECKING:
    from .state import Match


@dataclass(frozen=True, eq=False)
class DistinctNode(Node):
    """Met when `need` of the matchers are, by events with different values."""

    of: tuple[MatcherNode, ...]
    need: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", tuple(node.number for node in self.of))

    def met(self, view: View) -> Found | None:
        indexes, parts = self._chosen(view)
        return Found(parts) if len(indexes) == self.need else None

    def partial(self, view: View) -> Partial:
        indexes, parts = self._chosen(view)
        if len(indexes) == self.need:
            return Partial(parts, ())
        return Partial(parts, tuple(n for index, n in enumerate(self.numbers) if index not in indexes))

    def _chosen(self, view: View) -> tuple[Sequence[int], Parts]:
        """The indexes in `of` of the matchers that are met together, and their events."""
        candidates = [self._candidates(node, view) for node in self.of]
        view.looks.charge(sum(map(len, candidates)) * len(candidates))
        assignment = _Assignment(candidates)
        for index in range(len(candidates)):  # N4: the first in the condition
            if len(assignment.value_of) == self.need:
                break
            assignment.add(index)
        indexes = sorted(assignment.value_of)
        for index in indexes:  # N5: each in turn takes the event that it prefers
            assignment.prefer(index)
        return indexes, tuple(
            (self.of[index].number, candidates[index][assignment.value_of[index]]) for index in indexes
        )

    def _candidates(self, node: MatcherNode, view: View) -> dict[str, Match]:
        """{value: its event}, the preferred first."""
        events = node.counted(view)
        ordered = reversed(events) if node.latest and not view.early else events
        return {match.value_for(node.number): match for match in ordered}


class _Assignment:
    """Assigns a value to the matchers at some indexes; no two have the same.

    candidates: for each index {value: its event}, the preferred first. value_of: {index: its value}.
    """

    def __init__(self, candidates: Sequence[Mapping[str, Match]]) -> None:
        self._candidates = candidates
        self.value_of: dict[int, str] = {}
        self._owner_of: dict[str, int] = {}
        self._fixed: set[str] = set()  # values that `prefer` gave: they stay where they are

    def add(self, index: int) -> bool:
        """Give the index a value, if the indexes that have one can keep one."""
        return self._assign(index, set(self._fixed))

    def prefer(self, index: int) -> None:
        """Give the index its first value that leaves a value for each other index, and fix it."""
        for value in self._candidates[index]:
            if value in self._fixed:
                continue
            if self._take(index, value):
                self._fixed.add(value)
                return

    def _take(self, index: int, value: str) -> bool:
        """Give the index this value and its owner another; False, without a change, if that cannot be."""
        own, owner = self.value_of[index], self._owner_of.get(value)
        if owner == index:
            return True
        del self._owner_of[own]
        self._owner_of[value] = index
        self.value_of[index] = value
        if owner is None or self._assign(owner, self._fixed | {value}):
            return True
        self._owner_of[own], self._owner_of[value] = index, owner
        self.value_of[index], self.value_of[owner] = own, value
        return False

    def _assign(self, index: int, tried: set[str]) -> bool:
        """An augmenting path from the index: a free value, or one whose owner can take another."""
        for value in self._candidates[index]:
            if value in tried:
                continue
            tried.add(value)
            owner = self._owner_of.get(value)
            if owner is None or self._assign(owner, tried):
                self._owner_of[value] = index
                self.value_of[index] = value
                return True
        return False
