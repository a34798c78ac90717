"""Texts with values: finds all that a text begins with, with a number of look-ups that is small and bounded.

Texts lie in one dict for each length, and a look-up probes each length. A level takes MAX_LENGTHS lengths as
they come; a text of a further one lies below its beginning, in a level of its own. So texts of few lengths
cost one probe each length, and texts of many do not cost more than some levels' probes. A trie by characters
was slower in every shape that was measured: its nodes are many, and each is a step.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

V = TypeVar("V")

# More make more probes in a level, fewer make more levels; a level costs about as much as two probes.
MAX_LENGTHS: Final = 8


class _Level(Generic[V]):
    """The texts that begin alike, without that beginning; `value` is that of the beginning itself."""

    __slots__ = ("sealed", "tables", "value")

    def __init__(self, value: V | None = None) -> None:
        self.value = value
        self.tables: dict[int, dict[str, V | _Level[V]]] = {}
        self.sealed = False  # it had MAX_LENGTHS lengths

    def length_for(self, text: str) -> int:
        """How much of the text its table is for; the same as long as the text is here."""
        size = len(text)
        if size in self.tables or not self.sealed:
            return size
        # Shorter than all others, it can lie below none: the one case in which a level grows beyond the
        # limit. Taking any other new length would look in another place for texts of it that are here.
        return max((length for length in self.tables if length < size), default=size)


class Texts(Generic[V]):
    """A mapping from non-empty texts to values that are not None."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: _Level[V] = _Level()

    def __bool__(self) -> bool:
        return bool(self._root.tables)

    def find(self, whole: str) -> list[V]:
        """The values of all texts that `whole` begins with."""
        found: list[V] = []
        deeper: list[tuple[_Level[V], str]] | None = None
        for length, table in self._root.tables.items():
            below = table.get(whole[:length])
            if below is None:
                continue
            if type(below) is not _Level:
                found.append(below)  # type: ignore[arg-type]  # mypy does not narrow by `is not`
            elif deeper is None:
                deeper = [(below, whole[length:])]
            else:
                deeper.append((below, whole[length:]))
        for level, rest in deeper or ():  # it grows meanwhile
            if level.value is not None:
                found.append(level.value)
            for length, table in level.tables.items():
                below = table.get(rest[:length])
                if type(below) is _Level:
                    deeper.append((below, rest[length:]))  # type: ignore[union-attr]
                elif below is not None:
                    found.append(below)  # type: ignore[arg-type]
        return found

    def get(self, text: str) -> V | None:
        """The value of this very text."""
        level = self._root
        while True:
            length = level.length_for(text)
            below = level.tables.get(length, {}).get(text[:length])
            if length == len(text):
                return below.value if isinstance(below, _Level) else below
            if not isinstance(below, _Level):
                return None
            level, text = below, text[length:]

    def __setitem__(self, text: str, value: V) -> None:
        level = self._root
        while True:
            length = level.length_for(text)
            table = level.tables.setdefault(length, {})
            level.sealed = level.sealed or len(level.tables) >= MAX_LENGTHS
            head = text[:length]
            below = table.get(head)
            if length == len(text):
                if isinstance(below, _Level):
                    below.value = value
                else:
                    table[head] = value
                return
            if not isinstance(below, _Level):
                below = table[head] = _Level(below)
            level, text = below, text[length:]

    def __delitem__(self, text: str) -> None:
        """Take out a text that is there, and every level that has become empty."""
        level, trail = self._root, list[tuple[_Level[V], int, str]]()
        while True:
            length = level.length_for(text)
            head = text[:length]
            trail.append((level, length, head))
            below = level.tables[length][head]
            if length == len(text):
                break
            assert isinstance(below, _Level)  # noqa: S101  # a text that is there ends nowhere else
            level, text = below, text[length:]
        left: V | _Level[V] | None = None
        if isinstance(below, _Level):
            below.value = None
            left = below
        for level, length, head in reversed(trail):
            if isinstance(left, _Level):
                if left.tables:
                    return
                left = left.value  # a level with nothing below is its value
            if left is not None:
                level.tables[length][head] = left
                return
            del level.tables[length][head]
            if not level.tables[length]:
                del level.tables[length]
            level.sealed = level.sealed and bool(level.tables)
            left = level
