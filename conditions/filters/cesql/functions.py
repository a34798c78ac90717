"""The functions of CESQL, by name and number of arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .values import (
    INTEGER_MAX,
    INTEGER_MIN,
    MAX_STRING_CHARS,
    Failure,
    Kind,
    Value,
    to_boolean,
    to_integer,
    to_string,
)

# Unicode's White_Space; str.strip() would also remove four control characters.
WHITE_SPACE: Final = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


@dataclass(frozen=True)
class Function:
    """A function: the types that its arguments are cast to (None: not cast), and the type of its result.

    rest: the type of any further arguments; None if it takes no more. A Failure from `apply` holds the value
    that the function returns with the error.
    """

    parameters: tuple[Kind | None, ...]
    result: Kind
    apply: Callable[..., Value]
    rest: Kind | None = None

    def takes(self, count: int) -> bool:
        """True if the function can be called with `count` arguments."""
        return count == len(self.parameters) or (count > len(self.parameters) and self.rest is not None)

    def error_of(self, values: Sequence[Value | None]) -> str | None:
        """The error of every call with these arguments, if it is known; None in `values`: any value."""
        if self.parameters[:2] != (str, int):
            return None  # only a position or a length can make a call fail
        # For an argument that may have any value, try the value with which the call is least likely to fail.
        tried: list[Value] = []
        for value, parameter in zip(values, self.parameters, strict=True):
            if parameter is int:
                tried.append(1 if value is None else to_integer(value))
            else:
                tried.append("x" * MAX_STRING_CHARS if value is None else to_string(value))
        try:
            self.apply(*tried)
        except Failure as failure:
            return failure.error
        return None


def find(name: str, count: int) -> Function | None:
    """The function called `name`, in any case, that takes `count` arguments."""
    for function in FUNCTIONS.get(name.upper(), ()):
        if function.takes(count):
            return function
    return None


def _abs(x: int) -> int:
    if x == INTEGER_MIN:
        raise Failure(f"MathError: ABS({x}) does not fit an Integer of 32 bits", INTEGER_MAX)
    return abs(x)


def _concat(*parts: str) -> str:
    return _joined("", parts)


def _concat_ws(delimiter: str, *parts: str) -> str:
    return _joined(delimiter, parts)


def _joined(delimiter: str, parts: tuple[str, ...]) -> str:
    _check_length(sum(map(len, parts)) + len(delimiter) * max(len(parts) - 1, 0))
    return delimiter.join(parts)


def _lower(x: str) -> str:
    _check_length(len(x))
    return x.lower()


def _upper(x: str) -> str:
    _check_length(len(x))
    return x.upper()


def _check_length(chars: int) -> None:
    if chars > MAX_STRING_CHARS:
        raise Failure(
            f"FunctionEvaluationError: a string of {chars} characters: at most {MAX_STRING_CHARS}", ""
        )


def _trim(x: str) -> str:
    _check_length(len(x))
    return x.strip(WHITE_SPACE)


def _left(x: str, y: int) -> str:
    if y < 0:
        raise Failure(f"FunctionEvaluationError: LEFT of {y} characters", x)
    return x[:y]


def _right(x: str, y: int) -> str:
    if y < 0:
        raise Failure(f"FunctionEvaluationError: RIGHT of {y} characters", x)
    return x[-y:] if y else ""


def _substring(x: str, position: int, length: int = INTEGER_MAX) -> str:
    if length < 0:
        raise Failure(f"FunctionEvaluationError: SUBSTRING of {length} characters", "")
    if not -len(x) <= position <= len(x):
        raise Failure(
            f"FunctionEvaluationError: SUBSTRING from position {position} of a string of {len(x)} characters",
            "",
        )
    start = position - 1 if position > 0 else len(x) + position  # 0 gives the end, so an empty text
    return x[start : start + length]


def _can_cast(cast: Callable[[Value], Value]) -> Callable[[Value], bool]:
    def can_cast(x: Value) -> bool:
        try:
            cast(x)
        except Failure:
            return False
        return True

    return can_cast


# Their result is the argument cast to its type.
CASTING: Final = frozenset({"INT", "BOOL"})

# IS_INT and IS_BOOL are not in version 1.0 of the specification, but in its drafts and CloudEvents' SDKs.
FUNCTIONS: Final[Mapping[str, tuple[Function, ...]]] = {
    "ABS": (Function((int,), int, _abs),),
    "BOOL": (Function((None,), bool, to_boolean),),
    "CONCAT": (Function((), str, _concat, rest=str),),
    "CONCAT_WS": (Function((str,), str, _concat_ws, rest=str),),
    "INT": (Function((None,), int, to_integer),),
    "IS_BOOL": (Function((None,), bool, _can_cast(to_boolean)),),
    "IS_INT": (Function((None,), bool, _can_cast(to_integer)),),
    "LEFT": (Function((str, int), str, _left),),
    "LENGTH": (Function((str,), int, len),),
    "LOWER": (Function((str,), str, _lower),),
    "RIGHT": (Function((str, int), str, _right),),
    "STRING": (Function((None,), str, to_string),),
    "SUBSTRING": (Function((str, int), str, _substring), Function((str, int, int), str, _substring)),
    "TRIM": (Function((str,), str, _trim),),
    "UPPER": (Function((str,), str, _upper),),
}
