"""PrefixMap: finds all stored texts that a given text starts with; its cost does not grow with their number.

A level is a dict of the texts with a common beginning. Its keys are the next `size` characters, where `size`
is the length of the shortest of these texts; longer texts continue in a level below. A search takes one
look-up a level, and most texts differ in the first levels. A trie by characters would need more
look-ups; one dict for each length of text would need a look-up for each length.
"""

from __future__ import annotations

from typing import Generic, TypeVar

V = TypeVar("V")


class _Level(Generic[V]):
    """The remainders of texts with a common beginning; `value` is the value of the beginning itself.

    table: {the next `size` characters: the value of the text that ends there, or the level below}.
    """

    __slots__ = ("size", "table", "value")

    def __init__(self, value: V | None = None) -> None:
        self.value = value
        self.size = 0
        self.table: dict[str, V | _Level[V]] = {}

    def split(self, size: int) -> None:
        """Shorten `size` for a text that is shorter than all others in this level.

        Its cost grows with the number of texts, but it is rare: one of the first texts is usually about the
        shortest, unless they come sorted by descending length.
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
        """The values of all texts that `whole` starts with."""
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
        """The value of exactly this text."""
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
        """Remove a text that is in the map, and every level that becomes empty."""
        level, trail = self._root, list[tuple[_Level[V], str]]()
        left: V | _Level[V] | None = None  # what stays at the end of the trail
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
