"""What is known of a node's text and number on every event: its characters, its length, its range."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from .functions import WHITE_SPACE
from .like import MANY, Tokens, overlap
from .nodes import ONLY_TEXT, Node, cast_error
from .values import CASTS, INTEGER_MAX, INTEGER_MIN, to_integer, to_string
from .written import unwrapped

ENDLESS: Final = 2**31
_NUMBER_BEGINS: Final = re.compile(r"[+-]?[0-9]*")
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")
# Functions that return the text of their argument, in another letter case or without outer white space.
_KEEP_TEXT: Final = frozenset({"UPPER", "LOWER", "TRIM", "STRING"})

Range = tuple[int, int]


@dataclass(frozen=True)
class TextBounds:
    """What is known of a node's text on every event.

    least, most: its length. upper, lower: no character changes in this case. trimmed: no white space at its
    ends. begins, ends: its first and last characters. kind: int or bool if it is the text of such a value.
    """

    least: int = 0
    most: int = ENDLESS
    upper: bool = False
    lower: bool = False
    trimmed: bool = False
    begins: str = ""
    ends: str = ""
    kind: type[int] | type[bool] | None = None

    def refuses(self, pattern: Tokens) -> str | None:
        """Why no such text matches the pattern; None if one may."""
        letters = "".join(each for each in pattern if each is not None and each != MANY)
        length = sum(each != MANY for each in pattern)
        if self.kind is int and not _could_be_integer(pattern):
            return "it is an Integer"
        if self.kind is bool and not any(overlap(pattern, tuple(word)) for word in ("true", "false")):
            return "it is true or false"
        if self.upper and letters.upper() != letters:
            return "it has no lower-case letters"
        if self.lower and any(each.lower() != each for each in letters):
            return "it has no upper-case letters"
        if self.trimmed and _at_an_end(pattern, WHITE_SPACE):
            return "it has no white space at its ends"
        if length > self.most:
            return f"it has at most {self.most} characters"
        if length < self.least and MANY not in pattern:
            return f"it has at least {self.least} characters"
        if not _agree(self.begins, pattern):
            return f"it begins with {self.begins!r}"
        if not _agree(self.ends[::-1], pattern[::-1]):
            return f"it ends with {self.ends!r}"
        return None


def _could_be_integer(pattern: Tokens) -> bool:
    if MANY not in pattern and None not in pattern:
        return _INTEGER.fullmatch("".join(map(str, pattern))) is not None
    return all(each in (None, MANY) or each in "-0123456789" for each in pattern)


def _at_an_end(pattern: Tokens, characters: str) -> bool:
    ends = (pattern[:1], pattern[-1:])
    return any(each is not None and each != MANY and each in characters for end in ends for each in end)


def _agree(text: str, pattern: Tokens) -> bool:
    for character, token in zip(text, pattern, strict=False):
        if token == MANY:
            return True
        if token is not None and token != character:
            return False
    return True


def text_bounds(node: Node) -> TextBounds:
    """What is known of the node's text."""
    node = unwrapped(node)
    if node.value is not None:
        return _exactly(to_string(node.value))
    if node.kind is int:
        low, high = bounds(node)
        most = max(len(str(low)), len(str(high)))
        return TextBounds(1, most, upper=True, lower=True, trimmed=True, kind=int)
    if node.kind is bool:
        return TextBounds(4, 5, lower=True, trimmed=True, kind=bool)
    if node.form != "call":
        return TextBounds()
    return _of_call(node)


def _exactly(text: str) -> TextBounds:
    upper, lower = text.upper() == text, all(each.lower() == each for each in text)
    trimmed = text.strip(WHITE_SPACE) == text
    return TextBounds(len(text), len(text), upper, lower, trimmed, text, text)


def _of_call(node: Node) -> TextBounds:
    (name,), parts = node.signs, node.parts
    if name == "CONCAT":
        return _concatenated(parts)
    if name == "CONCAT_WS":
        return _concatenated([each for part in parts[1:] for each in (parts[0], part)][1:])
    inner = text_bounds(parts[0])
    if name == "STRING":
        return inner
    if name in ("UPPER", "LOWER"):
        return _in_case(inner, upper=name == "UPPER")
    if name == "TRIM":
        trimmed = replace(inner, least=0, trimmed=True, begins="", ends="", kind=None)
        return inner if inner.trimmed else trimmed
    cut = replace(inner, least=0, trimmed=False, begins="", ends="", kind=None)
    number = parts[-1].value
    if number is None or cast_error(parts[-1], int) is not None:
        return cut
    length = max(to_integer(number), 0)
    if name == "SUBSTRING" and len(parts) == 3:
        return replace(cut, most=min(inner.most, length))
    if name == "LEFT":
        least, most = min(inner.least, length), min(inner.most, length)
        return replace(cut, least=least, most=most, begins=inner.begins[:length])
    if name == "RIGHT":
        least, most = min(inner.least, length), min(inner.most, length)
        return replace(cut, least=least, most=most, ends=inner.ends[-length:] if length else "")
    return cut


def _in_case(inner: TextBounds, *, upper: bool) -> TextBounds:
    if inner.upper if upper else inner.lower:
        return replace(inner, kind=inner.kind if inner.kind is int else None)
    begins, ends = inner.begins, inner.ends
    if upper:
        begins, ends = begins.upper(), ends.upper()
    else:  # lower() writes a sigma at the end of a word differently
        begins = "" if "\u03a3" in begins else begins.lower()
        ends = "" if "\u03a3" in ends else ends.lower()
    most = min(3 * inner.most, ENDLESS)
    return TextBounds(inner.least, most, upper, not upper, inner.trimmed, begins, ends)


def _concatenated(parts: Sequence[Node]) -> TextBounds:
    texts = [text_bounds(part) for part in parts]
    if len(texts) == 1:
        return texts[0]
    least, most = sum(each.least for each in texts), min(sum(each.most for each in texts), ENDLESS)
    upper, lower = all(each.upper for each in texts), all(each.lower for each in texts)
    begins = ends = ""
    for part, each in zip(parts, texts, strict=True):
        begins += each.begins
        if part.value is None:
            break
    for part, each in zip(reversed(parts), reversed(texts), strict=True):
        ends = each.ends + ends
        if part.value is None:
            break
    return TextBounds(least, most, upper, lower, begins=begins, ends=ends)


def bounds(node: Node) -> Range:
    """The least and the greatest Integer that the node can be cast to; if there is none, least > greatest."""
    node = unwrapped(node)
    none = (1, 0)
    if node.error is not None or cast_error(node, int) is not None:
        return none
    if node.value is not None:
        value = int(CASTS[int](node.value))
        return value, value
    if node.kind is bool:
        return 0, 1
    if node.form in ("-", "arithmetic"):
        return _of_arithmetic(node)
    if node.form == "call":
        return _bounds_of_call(node)
    return INTEGER_MIN, INTEGER_MAX


def _bounds_of_call(node: Node) -> Range:
    (name,) = node.signs
    if name == "LENGTH":
        text = text_bounds(node.parts[0])
        return text.least, min(text.most, INTEGER_MAX)
    if name in ("INT", "ABS"):
        low, high = bounds(node.parts[0])
        if name == "INT" or low > high:
            return low, high
        least = 0 if low <= 0 <= high else min(abs(low), abs(high))
        return _clamped((least, max(abs(low), abs(high))))
    if is_only_text(node):
        return 1, 0
    text = text_bounds(node)
    known = text.begins if text.least == text.most == len(text.begins) else ""
    if not _NUMBER_BEGINS.fullmatch(text.begins) or re.search(r"[^0-9+-]", text.ends + known):
        return 1, 0
    digits = min(text.most, 12)
    return (max(1 - 10 ** (digits - 1), INTEGER_MIN), min(10**digits - 1, INTEGER_MAX)) if digits else (1, 0)


def inner_texts(node: Node) -> Iterator[Node]:
    """The node; then, as long as it is a call of UPPER, LOWER, TRIM or STRING, the argument."""
    yield (node := unwrapped(node))
    while node.form == "call" and node.signs[0] in _KEEP_TEXT:
        yield (node := unwrapped(node.parts[0]))


def is_only_text(node: Node) -> bool:
    """Whether it is text that is never an Integer or a Boolean, such as a time, in any letter case."""
    *_, inner = inner_texts(node)
    return inner.form == "attribute" and inner.attribute in ONLY_TEXT


def _of_arithmetic(node: Node) -> Range:
    ranges = [bounds(part) for part in node.parts]
    if any(low > high for low, high in ranges):
        return 1, 0
    if node.form == "-":
        ((low, high),) = ranges
        return _clamped((-high, -low))
    steps = zip(node.signs, ranges[1:], strict=True)
    return reduce(lambda total, step: _combined(total, *step), steps, ranges[0])


def _combined(left: Range, sign: str, right: Range) -> Range:
    (a, b), (c, d) = left, right
    if a > b:
        return left
    if sign == "+":
        return _clamped((a + c, b + d))
    if sign == "-":
        return _clamped((a - d, b - c))
    if sign == "*":
        products = (a * c, a * d, b * c, b * d)
        return _clamped((min(products), max(products)))
    most = max(abs(a), abs(b))
    if sign == "%":  # the sign is that of the left side
        most = min(most, max(abs(c), abs(d)) - 1)
    return _clamped((-most if a < 0 else 0, most if b > 0 else 0)) if sign == "%" else _clamped((-most, most))


def _clamped(found: Range) -> Range:
    return max(found[0], INTEGER_MIN), min(found[1], INTEGER_MAX)
