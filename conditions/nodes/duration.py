"""Durations in whole milliseconds: read from what an author writes, checked, and written as text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from ...events.attributes import shown
from ..errors import ConditionError

MAX_DURATION_MS: Final = 366 * 86_400_000
_UNITS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_TEXT = re.compile(
    r"(?:([0-9]{1,12})w)?(?:([0-9]{1,12})d)?(?:([0-9]{1,12})h)?(?:([0-9]{1,12})m(?!s))?"
    r"(?:([0-9]{1,12})s)?(?:([0-9]{1,12})ms)?"
)
_NAMES: Final = ("weeks", "days", "hours", "minutes", "seconds", "milliseconds")
_NONE: Final[Mapping[str, float]] = {}
_MILLISECOND = timedelta(milliseconds=1)


def duration_ms(
    what: str, value: str | timedelta | None, units: Mapping[str, float] = _NONE, *, zero: bool = False
) -> int:
    """Milliseconds in "1h30m" (w, d, h, m, s, ms; largest first), a timedelta, or {"hours": 1}.

    what: the argument's name for the error. zero: 0 is allowed. Raises ConditionError for anything else, for
    less than a millisecond and for more than 366 days.
    """
    if units:
        if value is not None:
            raise ConditionError(f"{what}: give a duration or {', '.join(units)}, not both")
        for name in units:
            if name not in _NAMES:
                near = difflib.get_close_matches(name, (*_NAMES, "lateness", "armed_by"), 1)
                raise ConditionError(
                    f"{what} has no argument {shown(name)}" + (f": did you mean {near[0]}=?" if near else "")
                )
        try:
            if any(isinstance(number, bool) for number in units.values()):
                raise TypeError("a bool is not a number of hours")
            value = timedelta(**units)
        except (TypeError, ValueError, OverflowError) as error:
            got = ", ".join(f"{name}={shown(number)}" for name, number in units.items())
            raise ConditionError(
                f"{what} got {got}: give weeks, days, hours, minutes or seconds as numbers"
            ) from error
    if isinstance(value, timedelta):
        # DAG files may hold pendulum's durations, which cannot be divided by a timedelta.
        value = timedelta.__add__(value, timedelta())
        if value % _MILLISECOND:
            raise ConditionError(f"{what}: {value} is not a whole number of milliseconds")
        ms = value // _MILLISECOND
    elif isinstance(value, str):
        match = _TEXT.fullmatch(value) if value else None
        if match is None:
            raise ConditionError(f'{what}: {shown(value)} is not a duration: write "2h", "90m" or "1d12h"')
        ms = sum(int(n) * unit for n, unit in zip(match.groups(), _UNITS.values(), strict=True) if n)
    else:
        raise ConditionError(
            f'{what} takes a duration, such as "2h" or timedelta(hours=2), not a value of type'
            f" {type(value).__name__}"
        )
    return checked_ms(what, ms, zero)


def checked_ms(what: str, ms: object, zero: bool = False) -> int:
    """The milliseconds unchanged; raises ConditionError unless it is an int within the limits."""
    if not isinstance(ms, int) or isinstance(ms, bool):
        raise ConditionError(f"{what} is a {type(ms).__name__}: give a whole number of milliseconds")
    if not (0 if zero else 1) <= ms <= MAX_DURATION_MS:
        raise ConditionError(f"{what} is {shown(ms)} ms: at least {0 if zero else 1} ms, at most 366 days")
    return ms


def duration_text(ms: int) -> str:
    """A text that `duration_ms` reads back: 5_400_000 is "1h30m", 14 days are "2w", 30 days "30d"."""
    return _in_units(ms, weeks=not ms % _UNITS["w"])


def offset_text(ms: int) -> str:
    """As `duration_text`, but 30 days are "4w2d": what the offset in a `by` path is written with.

    Registrations hold such paths, and with another text of the same offset a durable subscription would count
    as changed, which drops what it has pending.
    """
    return _in_units(ms, weeks=True)


def _in_units(ms: int, *, weeks: bool) -> str:
    parts = []
    for name, unit in _UNITS.items():
        if name == "w" and not weeks:
            continue
        n, ms = divmod(ms, unit)
        if n:
            parts.append(f"{n}{name}")
    return "".join(parts) or "0s"
