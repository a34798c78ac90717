"""Values of CESQL: String, Integer and Boolean as str, int and bool; their casts, and errors of casts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from ....events.attributes import shown

Value = str | int | bool
Kind = type[str] | type[int] | type[bool]
Attributes = Mapping[str, Value]
Evaluate = Callable[[Attributes], Value]

INTEGER_MIN: Final = -(2**31)
INTEGER_MAX: Final = 2**31 - 1
# Integers and Booleans in CloudEvents' canonical form: no sign +, no leading zero, lower case.
_CANONICAL_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,9}")
_CANONICAL_BOOLEANS: Final = {"true": True, "false": False}
# Together with the number of terms this limits the time and memory of an evaluation.
MAX_STRING_CHARS: Final = 16_384


class Failure(Exception):
    """Ends an evaluation. The message starts with the specification's name of the error."""

    def __init__(self, error: str, value: Value | None = None) -> None:
        super().__init__(error)
        self.error = error
        # The value that the failing function returns, None for the zero value; and the column of its call.
        self.value = value
        self.column = 0


def to_string(value: Value) -> str:
    """The value as String."""
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    return str(value)


def to_integer(value: Value) -> int:
    """The value as Integer; Failure for a text that is not a decimal number of 32 bits."""
    if type(value) is not str:
        return int(value)
    if len(value) <= 9 and value.isascii() and value.isdigit():
        return int(value)
    digits = value[1:] if value.startswith(("+", "-")) else value
    if len(digits) > MAX_STRING_CHARS or not (digits.isascii() and digits.isdigit()):
        raise Failure(f"CastError: {shown(value)} is not an Integer")
    number = integer(digits, negative=value.startswith("-"))
    if number is None:
        raise Failure(f"CastError: {shown(value)} does not fit an Integer of 32 bits")
    return number


def integer(digits: str, *, negative: bool) -> int | None:
    """The Integer with these digits; None if it has more than 32 bits."""
    # eleven digits are already too many; int() is slow for long numbers and refuses some
    number = int(digits.lstrip("0")[:11] or "0")
    number = -number if negative else number
    return number if INTEGER_MIN <= number <= INTEGER_MAX else None


def to_boolean(value: Value) -> bool:
    """The value as Boolean; Failure for a text other than true and false in any letter case."""
    if type(value) is not str:
        return value != 0
    if len(value) <= 5:
        lower = value.lower()
        if lower == "true":
            return True
        if lower == "false":
            return False
    raise Failure(f"CastError: {shown(value)} is not a Boolean")


CASTS: Final[Mapping[Kind, Callable[[Value], Value]]] = {str: to_string, int: to_integer, bool: to_boolean}


def as_typed(text: str) -> Value:
    """The value of an attribute whose type is unknown: the Integer or Boolean with this canonical string.

    Any other text is a String. The type itself gets lost in transport: a Kafka header holds text.
    """
    if _CANONICAL_INTEGER.fullmatch(text) is not None:
        number = int(text)
        return number if INTEGER_MIN <= number <= INTEGER_MAX else text
    return _CANONICAL_BOOLEANS.get(text, text)


def stands_for(x: Value, y: Value) -> bool:
    """Whether x, cast to the type of y, equals y; False if y is a text or the cast fails."""
    kind: Kind = type(y)
    if kind is str:
        return False
    try:
        return CASTS[kind](x) == y
    except Failure:
        return False


def given(name: str, value: object) -> Value:
    """An attribute's value as passed to `evaluate`; Failure if it is not a value of CESQL."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and INTEGER_MIN <= value <= INTEGER_MAX:
        return int(value)
    raise Failure(f"GenericError: attribute {name} is {shown(value)}: give a str, bool or int of 32 bits")
