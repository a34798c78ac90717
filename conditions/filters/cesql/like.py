"""LIKE: a pattern with % (any characters, or none) and _ (one character), compiled to a test of a text.

Between two % is a piece of fixed length. Taking the first position where a piece fits is always right, so
there is no backtracking: a test takes at most the length of the text times that of the longest piece. The
regular expressions below have no repetition, so their time is limited too.
"""

from __future__ import annotations

import re
from collections.abc import Callable


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


def matcher(pattern: str) -> Callable[[str], bool]:
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
