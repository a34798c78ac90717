"""Numbers that are moments or days since 1970-01-01 in UTC, in a unit (docs/use/conditions.md, K33)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Final, Literal, TypeAlias, get_args

Unit: TypeAlias = Literal["s", "ms", "us", "ns", "d"]
Number: TypeAlias = int | float | Fraction

UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
UNITS_TEXT: Final = '"s", "ms", "us", "ns" or "d"'  # for messages
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND: Final = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_MICROSECONDS: Final = 1_000_000  # in a second
_CENTURY: Final = range(2000, 2100)
_NUMERAL: Final = re.compile(r"[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,2})?")


def as_number(value: object) -> Number | None:
    """The number in a JSON value or in a text, which is read exactly; None for others."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):  # exact: 1795129199.999999999 as a float is the next second
        return None if _NUMERAL.fullmatch(value) is None else Fraction(value)
    return value if isinstance(value, (int, float)) else None


def moment_of(number: Number, unit: Unit) -> datetime:
    """The moment, without fractions of a microsecond. Raises ValueError or OverflowError beyond the calendar.

    unit: not "d".
    """
    per_second = _PER_SECOND[unit]
    if per_second > _MICROSECONDS:
        micros = number // (per_second // _MICROSECONDS)
    else:
        micros = number * (_MICROSECONDS // per_second) // 1
    return _EPOCH + timedelta(microseconds=int(micros))


def day_of(number: Number) -> date:
    """The day that many days after 1970-01-01. Raises ValueError or OverflowError beyond the calendar."""
    return _EPOCH.date() + timedelta(days=int(number // 1))


def likely_unit(value: object) -> Unit | None:
    """The only unit with which a number is a time of this century; None if there is none."""
    number = as_number(value)
    if number is None:
        return None
    for unit in UNITS:
        try:
            found = day_of(number) if unit == "d" else moment_of(number, unit)
        except (ValueError, OverflowError):
            continue
        if found.year in _CENTURY:
            return unit
    return None
