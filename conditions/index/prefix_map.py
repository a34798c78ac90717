"""PrefixMap: finds all stored texts that a given text starts with; its cost does not grow with their number.

Texts that begin alike lie in one level, in a dict under as much of their rest as the shortest of them has;
what is longer goes on in a level below. So every step of a search is one look-up, most texts part in the
first ones, and the number of lengths does not matter. A trie by characters takes more steps, each as long;
one dict for every length has to be probed for all of them.
"""

from __future__ import annotations

from typing import Generic, TypeVar

V = TypeVar("V")


class _Level(Generic[V]):
    """PrefixMap that begin alike, without that beginning; `value` is that of the beginning itself.

    table: {the first `size` characters: the value of the text that ends there, or the level below}.
    """

    __slots__ = ("size", "table", "value")

    def __init__(self, value: V | None = None) -> None:
        self.value = value
        self.size = 0
        self.table: dict[str, V | _Level[V]] = {}

    def split(self, size: int) -> None:
        """Shorten `size`, for a text that is shorter than all that are here.

        The one step whose cost grows with the texts here. It is rare: texts that come in no order have the
        shortest so far among the first few.
        """
        table: dict[str, V | _Level[V]] = {}
        for head, below in self.table.items():
            between = table.get(head[:size])
            if not isinstance(between, _Level):
                between = table[head[:size]] = _Level()
                between.size = self.size - size
            between.table[head[size:]] = below
        self.size, self.table = size, table


class PrefixMap(Generic[V]):
    """A mapping from non-empty texts to values that are not None."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: _Level[V] = _Level()

    def __bool__(self) -> bool:
        return bool(self._root.table)

    def find(self, whole: str) -> list[V]:
        """The values of all texts that `whole` begins with."""
        found: list[V] = []
        level, start = self._root, 0
        while True:
            end = start + level.size
            below = level.table.get(whole[start:end])
            if below is None:
                return found
            if not isinstance(below, _Level):
                found.append(below)
                return found
            if below.value is not None:
                found.append(below.value)
            level, start = below, end

    def get(self, text: str) -> V | None:
        """The value of this very text."""
        level = self._root
        while True:
            below = level.table.get(text[: level.size])
            text = text[level.size :]
            if not isinstance(below, _Level):
                return None if text else below
            if not text:
                return below.value
            level = below

    def __setitem__(self, text: str, value: V) -> None:
        level = self._root
        while True:
            if not level.table:
                level.size = len(text)
            elif len(text) < level.size:
                level.split(len(text))
            head, text = text[: level.size], text[level.size :]
            below = level.table.get(head)
            if not text:
                if isinstance(below, _Level):
                    below.value = value
                else:
                    level.table[head] = value
                return
            if not isinstance(below, _Level):
                below = level.table[head] = _Level(below)
            level = below

    def __delitem__(self, text: str) -> None:
        """Take out a text that is there, and every level that has become empty."""
        level, trail = self._root, list[tuple[_Level[V], str]]()
        left: V | _Level[V] | None = None
        while text:
            head, text = text[: level.size], text[level.size :]
            trail.append((level, head))
            below = level.table[head]
            if isinstance(below, _Level):
                level = left = below
            else:
                left = None
        if left is not None:
            level.value = None
        for level, head in reversed(trail):
            if isinstance(left, _Level):
                if left.table:
                    return
                left = left.value  # a level with nothing below is its value
            if left is not None:
                level.table[head] = left
                return
            del level.table[head]
            left = level
