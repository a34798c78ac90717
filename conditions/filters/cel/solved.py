"""What a comparison of a sum, product or quotient with a number says of the one part that is not constant.

Both operands have the type of the number. Integers: a result beyond 64 bits is an error. Floating-point
numbers: the bounds are widened by more than rounding can change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final, TypeAlias

from .ast import Node

Bound: TypeAlias = Fraction | None

_EXACT: Final = 2**53  # beyond it the library compares integers with floating-point numbers inexactly
_ROUNDING: Final = Fraction(1, 2**50)
_LEAST: Final = Fraction(1, 2**1000)  # more than what a product near zero loses


def solved(
    term: Node, relation: str, number: float
) -> Iterator[tuple[Node, int | float | None, int | float | None]]:
    """Each part that is not constant, from the outside in, with its least and greatest value, or None.

    relation: of the term to the number: ==, <, <=, > or >=.
    """
    low = Fraction(number) if relation in ("==", ">", ">=") else None
    high = Fraction(number) if relation in ("==", "<", "<=") else None
    strict = relation in ("<", ">")
    while term.kind == "call" and (low is not None or high is not None):
        if term.name == "-_":
            term, (low, high) = term.children[0], _linear(low, high, Fraction(-1), Fraction(0))
            yield (
                term,
                _number(low, is_float=True, away=-math.inf),
                _number(high, is_float=True, away=math.inf),
            )
            continue
        if len(term.children) != 2:
            return
        one, other = term.children
        part, constant, swapped = (one, other, False) if other.number is not None else (other, one, True)
        if constant.number is None or not abs(constant.number) < _EXACT:
            return
        by, is_float = Fraction(constant.number), isinstance(constant.number, float)
        if not is_float:
            low, high = _whole(low, high, strict=strict)
        strict = False
        inverse = _inverse(term.name, by, low, high, swapped=swapped, is_float=is_float)
        if inverse is None:
            return
        term, (low, high) = part, inverse
        yield (
            term,
            _number(low, is_float=is_float, away=-math.inf),
            _number(high, is_float=is_float, away=math.inf),
        )


def _whole(low: Bound, high: Bound, *, strict: bool) -> tuple[Bound, Bound]:
    """The bounds of an integer."""
    if low is not None:
        low = Fraction(math.floor(low) + 1 if strict else math.ceil(low))
    if high is not None:
        high = Fraction(math.ceil(high) - 1 if strict else math.floor(high))
    return low, high


def _inverse(
    name: str, by: Fraction, low: Bound, high: Bound, *, swapped: bool, is_float: bool
) -> tuple[Bound, Bound] | None:
    """The bounds of x, from those of `x name by`, or of `by name x` if they are swapped."""
    if is_float:
        low = None if low is None else low - (abs(low) + abs(by)) * _ROUNDING - _LEAST
        high = None if high is None else high + (abs(high) + abs(by)) * _ROUNDING + _LEAST
    if name == "_+_":
        return _linear(low, high, Fraction(1), by)
    if name == "_-_":
        return _linear(low, high, Fraction(-1 if swapped else 1), by if swapped else -by)
    if by == 0 or (name == "_/_" and swapped):
        return None
    if name == "_*_":
        low, high = _linear(low, high, by, Fraction(0))
        return (low, high) if is_float else _whole(low, high, strict=False)
    if name != "_/_":
        return None
    return _linear(low, high, 1 / by, Fraction(0)) if is_float else _of_dividend(low, high, by)


def _linear(low: Bound, high: Bound, factor: Fraction, plus: Fraction) -> tuple[Bound, Bound]:
    """The bounds of x, where x * factor + plus has these bounds."""
    least, most = (None if each is None else (each - plus) / factor for each in (low, high))
    return (least, most) if factor > 0 else (most, least)


def _of_dividend(low: Bound, high: Bound, by: Fraction) -> tuple[Bound, Bound]:
    """The bounds of x, where x / by, rounded towards 0, has these bounds."""
    if by < 0:
        low, high = (None if each is None else -each for each in (high, low))
    by = abs(by)
    if low is not None:
        low = low * by if low > 0 else (low - 1) * by + 1
    if high is not None:
        high = high * by if high < 0 else (high + 1) * by - 1
    return low, high


def _number(bound: Bound, *, is_float: bool, away: float) -> int | float | None:
    """The bound, rounded outwards; None if the library cannot compare it exactly.

    away: the direction to round to, -inf for a lower bound and inf for an upper one.
    """
    if bound is None or not abs(bound) < _EXACT:
        return None
    if not is_float:
        return int(bound)
    found = float(bound)
    return found if Fraction(found) == bound else math.nextafter(found, away)
