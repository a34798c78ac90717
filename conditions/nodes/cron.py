"""Cron expressions: five fields in one spelling, checked before the cron library reads them.

Cron implementations disagree on rarer spellings such as "59/15", "5-5", or "*/2" beside a day of the week;
versions of one library do too. A period must be the same in every process that evaluates a condition, so this
module rejects ambiguous expressions and says what to write instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ...events.attributes import shown
from ..errors import ConditionError

MAX_CRON_CHARS: Final = 256
_HOURS = 24
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NICKNAMES: Final = {
    "@HOURLY": "0 * * * *",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@WEEKLY": "0 0 * * 0",
    "@MONTHLY": "0 0 1 * *",
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
}


@dataclass(frozen=True)
class _Field:
    """A field and its range of values. names: the names of its values, starting at `low`."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day of the month", 1, 31)
_MONTH = _Field(
    "month", 1, 12, ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
)
_WEEKDAY = _Field("day of the week", 0, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))
_FIELDS = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)

_ITEM = re.compile(r"(?:(?P<star>\*)|(?P<low>[0-9]{1,2}|[A-Z]{3})(?:-(?P<high>[0-9]{1,2}|[A-Z]{3}))?)"
                   r"(?:/(?P<step>[0-9]{1,2}))?")  # fmt: skip
_ZONE = re.compile(r"(?:CRON_)?TZ=")  # of Go's cron library, and so of Kubernetes and Argo
_LAST_DAY = "L"
_NTH_WEEKDAY = re.compile(r"(?:[0-7]|[A-Z]{3})#[1-5]|L[0-7]")


@dataclass(frozen=True)
class Cron:
    """A checked expression: five fields in capitals, separated by single spaces, without nicknames.

    every_hour: it matches every hour of a day, so it runs by real time and clock changes do not matter.
    repeats: it runs again when the clock shows a time again: `every_hour`, or the minute or hour field begins
    with `*`, as in cron.
    """

    text: str
    every_hour: bool
    repeats: bool


def parse(expression: object) -> Cron:
    """The cron expression in a text; raises ConditionError if it is invalid, ambiguous or never occurs."""
    if not isinstance(expression, str):
        raise ConditionError(
            f'cron is a {type(expression).__name__}: write a text of five fields, such as "0 6 * * *"'
        )
    if len(expression) > MAX_CRON_CHARS:
        raise ConditionError(f"cron has {len(expression)} characters: at most {MAX_CRON_CHARS}")
    texts = _fields(expression)
    values = [_values(expression, field, text) for field, text in zip(_FIELDS, texts, strict=True)]
    _check_days(expression, texts, days=values[2], months=values[3])
    every_hour = len(values[1]) == _HOURS
    return Cron(" ".join(texts), every_hour, every_hour or "*" in (texts[0][0], texts[1][0]))


def _fields(expression: str) -> list[str]:
    # str.split() and str.upper() apply to all of Unicode, cron only to ASCII
    if not expression.isascii():
        raise ConditionError(f"cron {shown(expression)} has characters that are not ASCII")
    text = expression.upper()
    if text.strip().startswith("@"):
        known = ", ".join(_NICKNAMES).lower()
        if text.strip() not in _NICKNAMES:
            raise ConditionError(f"cron {shown(expression)} is unknown: write five fields, or one of {known}")
        text = _NICKNAMES[text.strip()]
    texts = text.split()
    if texts and (zone := _ZONE.match(texts[0])):
        name = expression.split()[0][zone.end() :]
        raise ConditionError(
            f"cron {shown(expression)} begins with a time zone: give it as an argument,"
            f' "{" ".join(expression.split()[1:])}", timezone="{name}"'
        )
    if len(texts) != len(_FIELDS):
        names = ", ".join(field.name for field in _FIELDS)
        raise ConditionError(
            f"cron {shown(expression)} has {len(texts)} fields: write five ({names}); seconds and years are"
            " not supported"
        )
    return texts


def _values(expression: str, field: _Field, text: str) -> set[int]:
    """The values of a field, without day `L` and weekdays such as MON#1 and L5."""
    if text == "*":
        return set(range(field.low, field.high + 1))
    where = f"cron {shown(expression)}, {field.name}"
    items = text.split(",")
    if field is _WEEKDAY and any("#" in item or _LAST_DAY in item for item in items):
        for item in items:
            if not _NTH_WEEKDAY.fullmatch(item):
                raise ConditionError(
                    f"{where}: {shown(item)} cannot stand here: write MON#1 for the month's first Monday, L5"
                    " for its last Friday, or days of every week, not both"
                )
            if "#" in item:
                _number(where, field, item.split("#")[0])
        return set()
    values: set[int] = set()
    for item in items:
        if field is not _DAY or item != _LAST_DAY:
            values.update(_range(where, field, item))
    return values


def _range(where: str, field: _Field, item: str) -> range:
    parts = _ITEM.fullmatch(item)
    if parts is None or item == "*":
        instead = "*" if item == "?" else "* alone"
        raise ConditionError(
            f"{where}: {shown(item)} cannot be read: write {instead}, */n, a number from {field.low} to"
            f" {field.high}, a range or a list of these"
        )
    step = int(parts["step"] or 1)
    if not 1 <= step <= field.high:
        raise ConditionError(f"{where}: the step of {shown(item)} is not in 1 to {field.high}")
    if parts["star"]:
        return range(field.low, field.high + 1, step)
    low = _number(where, field, parts["low"])
    if parts["high"] is None:
        if parts["step"]:
            instead = f"{low}-{field.high}/{step}" if low < field.high else str(low)
            raise ConditionError(f"{where}: {shown(item)} is read in several ways: write {instead}")
        return range(low, low + 1)
    high = _number(where, field, parts["high"])
    if low >= high:
        raise ConditionError(
            f"{where}: {shown(item)} is not an ascending range: write two ranges, or a list"
            + (" (7 is a Sunday too)" if field is _WEEKDAY else "")
        )
    return range(low, high + 1, step)


def _number(where: str, field: _Field, text: str) -> int:
    number = int(text) if text.isdigit() else -1
    if text in field.names:
        number = field.low + field.names.index(text)
    if not field.low <= number <= field.high:
        names = f", or {field.names[0]} to {field.names[-1]}" if field.names else ""
        raise ConditionError(f"{where}: {text} is not in {field.low} to {field.high}{names}")
    return number


def _check_days(expression: str, texts: list[str], days: set[int], months: set[int]) -> None:
    _, _, day, month, weekday = texts
    # Two plain fields: a day of either (cron, Airflow). For other spellings implementations differ.
    plain = not (day.startswith("*") or weekday.startswith("*") or "#" in weekday or _LAST_DAY in weekday)
    if not plain and day != "*" and weekday != "*":
        raise ConditionError(
            f"cron {shown(expression)}: day of the month {day} beside day of the week {weekday} is read in"
            " several ways: write * for one of the two, or ranges and lists for both"
        )
    longest = max(_MONTH_DAYS[number - 1] for number in months)
    if _LAST_DAY not in day.split(",") and min(days) > longest:
        raise ConditionError(
            f"cron {shown(expression)}: its day of the month never occurs, no month in {month} has a day"
            f" {min(days)}"
        )
