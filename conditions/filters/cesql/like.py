"""LIKE: a pattern with % (any characters, or none) and _ (one character), compiled to a test of a text.

Between two % is a piece of fixed length. Taking the first position where a piece fits is always right, so
there is no backtracking: a test takes at most the length of the text times that of the longest piece. The
regular expressions below have no repetition, so their time is limited too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

# The characters of a pattern; None stands for any one character, MANY for any number of them.
Tokens = tuple[str | None, ...]
MANY: Final = "%%"
MAX_PAIRS: Final = 4_096


class Piece:
    """A part of a pattern without %: characters, None standing for any one."""

    def __init__(self, characters: list[str | None]) -> None:
        self.length = len(characters)
        known = [character for character in characters if character is not None]
        self.text = "".join(known) if len(known) == self.length else None
        if self.text is None:
            source = "".join("." if character is None else re.escape(character) for character in characters)
            self._fixed = re.compile(source, re.DOTALL)

    def fits(self, text: str, start: int) -> bool:
        """True if the piece matches `text` at `start`."""
        if self.text is not None:
            return text.startswith(self.text, start)
        return self._fixed.match(text, start) is not None

    def find(self, text: str, start: int, end: int) -> int:
        """The first position at which the piece matches text[start:end], or -1."""
        if self.text is not None:
            return text.find(self.text, start, end)
        found = self._fixed.search(text, start, end)
        return -1 if found is None else found.start()


def compiled(pattern: str) -> Callable[[str], bool]:
    """The test whether a whole text matches `pattern`; a backslash makes % and _ literal."""
    pieces = [Piece(characters) for characters in _split(pattern)]
    head, tail = pieces[0], pieces[-1]
    if len(pieces) == 1:
        if head.text is not None:
            return head.text.__eq__
        return lambda text: len(text) == head.length and head.fits(text, 0)
    between = [piece for piece in pieces[1:-1] if piece.length]
    least = sum(piece.length for piece in pieces)

    def matches(text: str) -> bool:
        end = len(text) - tail.length
        if len(text) < least or not head.fits(text, 0) or not tail.fits(text, end):
            return False
        start = head.length
        for piece in between:
            found = piece.find(text, start, end)
            if found < 0:
                return False
            start = found + piece.length
        return True

    return matches


def tokens(pattern: str) -> Tokens:
    """The characters of the pattern, None for `_` and MANY for `%`."""
    first, *pieces = _split(pattern)
    return (*first, *(each for piece in pieces for each in (MANY, *piece)))


def overlap(one: Tokens, other: Tokens) -> bool:
    """Whether a text matches both patterns; True if in doubt."""
    if len(one) * len(other) > MAX_PAIRS:
        return True
    waiting, seen = [(0, 0)], set[tuple[int, int]]()
    while waiting:
        i, j = pair = waiting.pop()
        if pair in seen or i > len(one) or j > len(other):
            continue
        seen.add(pair)
        if i == len(one) and j == len(other):
            return True
        a, b = one[i : i + 1], other[j : j + 1]
        if MANY in (*a, *b):
            waiting += [(i + 1, j), (i, j + 1)] if a + b != (MANY,) else [(i + len(a), j + len(b))]
        elif a and b and (a == b or None in a + b):
            waiting.append((i + 1, j + 1))
    return False


def covers(wide: Tokens, narrow: Tokens) -> bool:
    """Whether each text that matches `narrow` also matches `wide`; False if in doubt."""
    if len(wide) * len(narrow) > MAX_PAIRS:
        return False
    waiting, seen = [(0, 0)], set[tuple[int, int]]()
    while waiting:
        i, j = pair = waiting.pop()
        if pair in seen or j > len(narrow):
            continue
        seen.add(pair)
        if i == len(wide):
            if j == len(narrow):
                return True
            continue
        if wide[i] == MANY:
            waiting += [(i + 1, j), (i, j + 1)]
        elif j < len(narrow) and narrow[j] != MANY and wide[i] in (None, narrow[j]):
            waiting.append((i + 1, j + 1))
    return False


def _split(pattern: str) -> list[list[str | None]]:
    pieces: list[list[str | None]] = [[]]
    escaped = False
    for character, following in zip(pattern, pattern[1:] + " ", strict=False):
        if escaped or character not in "%_\\":
            pieces[-1].append(character)
            escaped = False
        elif character == "%":
            pieces.append([])
        elif character == "_":
            pieces[-1].append(None)
        elif following in "%_":
            escaped = True
        else:
            pieces[-1].append(character)
    return pieces
