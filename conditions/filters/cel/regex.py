"""An upper bound of the size of a compiled regular expression in RE2's syntax, which limits its cost.

RE2 never backtracks, so its time is at most proportional to size times text. The length and nesting of a
pattern do not limit its size: counted repetitions multiply it (a{100}{10} is 1,000 letters), and a Unicode
class takes hundreds of states.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ...errors import ConditionError


class Size(NamedTuple):
    """states: visited for each byte of text when matching; build: time to compile it, in microseconds."""

    states: int
    build: int


# Measured with RE2 of cel-cpp 0.14: \pL takes 1.2 ms to compile, [^a] 3 us, a letter below 1 us.
_LETTER: Final = Size(1, 1)
_CLASS: Final = Size(6, 6)
_UNICODE: Final = Size(60, 1300)
# The flag (?i) doubles the states of each letter.
_IGNORE_CASE: Final = 2
_COUNTS: Final = re.compile(r"([0-9]+)(,)?([0-9]*)")


def size(pattern: str) -> Size:
    """An upper bound of the size of `pattern`; raises ConditionError for unclosed groups or classes."""
    return _Reader(pattern).read()


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def read(self) -> Size:
        groups: list[list[Size]] = [[]]
        while self._at < len(self._pattern):
            char = self._next()
            if char == "(":
                groups.append([])
            elif char == ")":
                if len(groups) == 1:
                    raise ConditionError(f"the pattern {self._pattern!r} closes a group that was not opened")
                inner = groups.pop()
                groups[-1].append(_sum([_LETTER, *inner]))
            elif char in "*+?":
                groups[-1].append(_LETTER)
            elif char == "{" and groups[-1]:
                times = self._repetition()
                last = groups[-1].pop()
                groups[-1].append(Size(last.states * times, last.build * times))
            else:
                groups[-1].append(self._atom(char))
        if len(groups) > 1:
            raise ConditionError(f"the pattern {self._pattern!r} does not close a group")
        total = _sum(groups[0])
        return Size(total.states * _IGNORE_CASE, total.build) if "(?" in self._pattern else total

    def _atom(self, char: str) -> Size:
        if char == "[":
            return self._class()
        if char == "\\":
            return self._escape()
        return _CLASS if char == "." or ord(char) > 127 else _LETTER

    def _class(self) -> Size:
        found = _CLASS
        first = True
        while self._at < len(self._pattern):
            char = self._next()
            if char == "^" and first:
                continue
            if char == "]" and not first:
                return found
            if char == "\\":
                found = _sum([found, self._escape()])
            elif char == "[" and self._pattern[self._at : self._at + 1] == ":":
                close = self._pattern.find(":]", self._at)
                self._at = close + 2 if close >= 0 else len(self._pattern)
                found = _sum([found, _CLASS])
            else:
                found = _sum([found, _LETTER])
            first = False
        raise ConditionError(f"the pattern {self._pattern!r} does not close a class")

    def _escape(self) -> Size:
        char = self._next() if self._at < len(self._pattern) else ""
        if char and char in "pP":  # \pL or \p{Greek}
            close = self._pattern.find("}", self._at) if self._pattern[self._at : self._at + 1] == "{" else -1
            self._at = close + 1 if close >= 0 else self._at + 1
            return _UNICODE
        if char == "Q":  # literal text up to \E
            close = self._pattern.find("\\E", self._at)
            end = len(self._pattern) if close < 0 else close
            length = end - self._at
            self._at = end if close < 0 else end + 2
            return Size(max(length, 1), max(length, 1))
        return _CLASS

    def _repetition(self) -> int:
        """The most repetitions of {n}, {n,} or {n,m}; 1 if the brace is a literal."""
        close = self._pattern.find("}", self._at)
        inside = self._pattern[self._at : close] if close >= 0 else ""
        counts = _COUNTS.fullmatch(inside)
        if counts is None:
            return 1
        self._at = close + 1
        least, comma, most = counts.groups()
        # {n,} compiles to n repetitions and a loop
        return max(1, int(most or least)) + (comma is not None and not most)

    def _next(self) -> str:
        self._at += 1
        return self._pattern[self._at - 1]


def _sum(sizes: list[Size]) -> Size:
    return Size(sum(each.states for each in sizes), sum(each.build for each in sizes))
