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
        places, parts = self._chosen(view)
        return Found(parts) if len(places) == self.need else None

    def partial(self, view: View) -> Partial:
        places, parts = self._chosen(view)
        if len(places) == self.need:
            return Partial(parts, ())
        return Partial(parts, tuple(n for place, n in enumerate(self.numbers) if place not in places))

    def _chosen(self, view: View) -> tuple[Sequence[int], Parts]:
        """The places in `of` of the matchers that are met together, and their events."""
        candidates = [self._candidates(node, view) for node in self.of]
        view.looks.charge(sum(map(len, candidates)) * len(candidates))
        assignment = _Assignment(candidates)
        for place in range(len(candidates)):  # N4: the first in the condition
            if len(assignment.value_of) == self.need:
                break
            assignment.add(place)
        places = sorted(assignment.value_of)
        for place in places:  # N5: each in turn takes the event that it prefers
            assignment.prefer(place)
        return places, tuple(
            (self.of[place].number, candidates[place][assignment.value_of[place]]) for place in places
        )

    def _candidates(self, node: MatcherNode, view: View) -> dict[str, Match]:
        """{value: its event}, the preferred first."""
        events = node.counted(view)
        ordered = reversed(events) if node.latest and not view.early else events
        return {match.value_for(node.number): match for match in ordered}


class _Assignment:
    """Which value the matcher at each place has; no two have the same.

    candidates: for each place {value: its event}, the preferred first. value_of: {place: its value}.
    """

    def __init__(self, candidates: Sequence[Mapping[str, Match]]) -> None:
        self._candidates = candidates
        self.value_of: dict[int, str] = {}
        self._place_of: dict[str, int] = {}
        self._fixed: set[str] = set()  # values that `prefer` gave: they stay where they are

    def add(self, place: int) -> bool:
        """Give the place a value, if the places before it can keep one each."""
        return self._assign(place, set(self._fixed))

    def prefer(self, place: int) -> None:
        """Give the place the first value that leaves one for each other place, and fix it."""
        for value in self._candidates[place]:
            if value in self._fixed:
                continue
            if self._take(place, value):
                self._fixed.add(value)
                return

    def _take(self, place: int, value: str) -> bool:
        """Give the place this value, moving its owner to another; False, without a change, if it cannot."""
        own, owner = self.value_of[place], self._place_of.get(value)
        if owner == place:
            return True
        del self._place_of[own]
        self._place_of[value] = place
        self.value_of[place] = value
        if owner is None or self._assign(owner, self._fixed | {value}):
            return True
        self._place_of[own], self._place_of[value] = place, owner
        self.value_of[place], self.value_of[owner] = own, value
        return False

    def _assign(self, place: int, tried: set[str]) -> bool:
        """An augmenting path from the place: a free value, or that of a place which can move."""
        for value in self._candidates[place]:
            if value in tried:
                continue
            tried.add(value)
            owner = self._place_of.get(value)
            if owner is None or self._assign(owner, tried):
                self._place_of[value] = place
                self.value_of[place] = value
                return True
        return False
