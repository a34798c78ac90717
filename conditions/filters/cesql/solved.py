"""What the Integer of a sum, product, quotient or ABS says of the one part of it that is not constant.

A result beyond 32 bits is an error, so +, - and * have exactly one inverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from .nodes import Node, cast_error
from .operators import arithmetic
from .terms import Number, of_number
from .values import CASTS
from .written import unwrapped

MAX_PARTS: Final = 16  # of a chain such as 1 + a + 2; a longer one says nothing


def implied(number: Number) -> Iterator[Number]:
    """What it says of each nested part that is not constant, from the outside in."""
    found = _of_part(number)
    while found is not None:
        yield found
        found = _of_part(found)


def _of_part(number: Number) -> Number | None:
    node = unwrapped(number.term)
    if node.form == "-":
        return _mapped(number, node.parts[0], -1, 0)
    if node.form == "call" and node.signs[0] == "ABS":
        return _of_absolute(number, node.parts[0])
    if node.form != "arithmetic" or len(node.parts) > MAX_PARTS:
        return None
    *before, last = node.parts
    *signs, sign = node.signs
    rest = before[0] if len(before) == 1 else arithmetic(before[0], list(zip(signs, before[1:], strict=True)))
    right, left = _constant(last), _constant(rest)
    if right is not None:
        return _of_left(number, rest, sign, right)
    return None if left is None else _of_right(number, left, sign, last)


def _of_left(number: Number, part: Node, sign: str, by: int) -> Number | None:
    if sign in "+-":
        return _mapped(number, part, 1, by if sign == "+" else -by)
    if sign == "*":
        return _mapped(number, part, by, 0)
    return _of_dividend(number, part, by) if sign == "/" else None


def _of_right(number: Number, left: int, sign: str, part: Node) -> Number | None:
    if sign in "+-":
        return _mapped(number, part, 1 if sign == "+" else -1, left)
    return _mapped(number, part, left, 0) if sign == "*" else None


def _constant(node: Node) -> int | None:
    if node.value is None or cast_error(node, int) is not None:
        return None
    return int(CASTS[int](node.value))


def _mapped(number: Number, part: Node, factor: int, plus: int) -> Number | None:
    """What is known of `part`, whose Integer times `factor` plus `plus` is the number."""
    if factor == 0:
        return None
    ends = number.low - plus, number.high - plus
    low, high = ends if factor > 0 else ends[::-1]

    def inverse(values: Iterable[int]) -> frozenset[int]:
        return frozenset((each - plus) // factor for each in values if (each - plus) % factor == 0)

    return Number(
        of_number(part),
        -(-low // factor),
        high // factor,
        None if number.allowed is None else inverse(number.allowed),
        inverse(number.excluded),
    )


def _of_dividend(number: Number, part: Node, divisor: int) -> Number | None:
    """What is known of `part`, whose Integer divided by `divisor`, rounded towards 0, is the number."""
    low, high = number.low, number.high
    if number.allowed is not None:
        low, high = (
            (max(low, min(number.allowed)), min(high, max(number.allowed))) if number.allowed else (1, 0)
        )
    if divisor < 0:
        low, high, divisor = -high, -low, -divisor
    return Number(
        of_number(part),
        low * divisor if low > 0 else (low - 1) * divisor + 1,
        high * divisor if high < 0 else (high + 1) * divisor - 1,
    )


def _of_absolute(number: Number, part: Node) -> Number:
    def both(values: Iterable[int]) -> frozenset[int]:
        return frozenset(sign * each for each in values if each >= 0 for sign in (1, -1))

    return Number(
        of_number(part),
        -number.high,
        number.high,
        None if number.allowed is None else both(number.allowed),
        both(number.excluded).union(range(1 - number.low, number.low) if 0 < number.low < 100 else ()),
    )
