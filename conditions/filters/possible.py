"""Whether an expression of and, or and not can be true: a search over the outcomes of its parts.

An atom is a part that the search does not divide. The search looks for outcomes (true or false) of atoms that
make the expression true; the subclass says which outcomes exclude each other. An atom that fails on an event
has neither outcome. In doubt the answer is that the expression can be true.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

MAX_STEPS: Final = 500

T = TypeVar("T")


class Search(ABC, Generic[T]):
    """Searches for atoms with outcomes that make an expression true and do not exclude each other."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    @abstractmethod
    def ways(self, node: T, outcome: bool) -> Sequence[Sequence[tuple[T, bool]]] | None:
        """Each set of outcomes of the node's parts that gives it this outcome; None for an atom."""

    @abstractmethod
    def fits(self, node: T, outcome: bool, held: Sequence[tuple[T, bool]]) -> bool:
        """Whether an atom can have this outcome if the atoms in `held` have theirs."""

    def possible(self, node: T, outcome: bool = True) -> bool:
        """Whether the expression can have this outcome."""
        return self._search([(node, outcome)], ())

    def _search(self, wanted: list[tuple[T, bool]], held: tuple[tuple[T, bool], ...]) -> bool:
        self._left -= 1
        if self._left < 0:
            return True
        while wanted:
            node, outcome = wanted.pop()
            ways = self.ways(node, outcome)
            if ways is None:
                if not self.fits(node, outcome, held):
                    return False
                held = (*held, (node, outcome))
            elif len(ways) == 1:
                wanted += ways[0]
            else:
                return any(self._search([*wanted, *way], held) for way in ways)
        return True
