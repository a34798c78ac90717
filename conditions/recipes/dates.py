"""The `dates=` of a DAG's runs: {day of the key: day or days of the awaited run}."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final, TypeAlias

from ...events.attributes import shown
from ..errors import ConditionError
from ..filters.cel.ast import quoted
from ..nodes.paths import DATA
from ..nodes.zoned import Zoned

Day: TypeAlias = str | date
Dates: TypeAlias = Mapping[Day, Day | Sequence[Day]]

MAX_DATES: Final = 1000
_MAX_FILTERED: Final = 200  # the filters of a matcher have at most 256 terms
_MAX_WHERE_CHARS: Final = 1000  # `where` has at most 1,024
_NUMBER_CHARS: Final = len("2026323, ")


def by_distance(who: str, dates: Dates) -> list[tuple[timedelta, list[date]]]:
    """The days of the awaited runs, grouped by their distance from the key; usually a few groups."""
    if not isinstance(dates, Mapping) or not dates:
        raise ConditionError(f"{who}: dates= must be a non-empty mapping {{day: day waited for}}")
    groups: dict[timedelta, dict[date, None]] = {}
    number = 0
    for key, wanted in dates.items():
        if not isinstance(wanted, (str, date, list, tuple, set, frozenset)):
            _day(who, wanted)  # raises
        for each in (wanted,) if isinstance(wanted, (str, date)) else wanted:
            number += 1
            day = _day(who, each)
            groups.setdefault(_day(who, key) - day, {})[day] = None
    if number > MAX_DATES:
        raise ConditionError(f"{who}: dates= has {number} days: at most {MAX_DATES:,}")
    return [(distance, list(days)) for distance, days in sorted(groups.items())]


def check_zoned(who: str, by: Zoned) -> None:
    """Raises ConditionError unless runs can be chosen by this day."""
    write = 'write by=day("logical_date", tz="Europe/Berlin"), or leave by= out for days in UTC'
    if by.name != "day" or by.unit is not None or not by.of.startswith(DATA):
        raise ConditionError(f"{who}: dates= with by={by.text}: {write}")
    if by.zone is None:
        raise ConditionError(f"{who}: dates= with by={by.text}, which names no time zone: {write}")
    if by.offset:
        raise ConditionError(f"{who}: dates= with by={by.text}: dates= already gives the offset; {write}")


def in_filters(days: Sequence[date]) -> Iterator[tuple[str, ...]]:
    """The days as values of `ds`, as many as one matcher can have."""
    for at in range(0, len(days), _MAX_FILTERED):
        yield tuple(day.isoformat() for day in days[at : at + _MAX_FILTERED])


def in_where(by: Zoned, days: Sequence[date]) -> Iterator[str]:
    """`where` for runs of these days in the zone, as many as one expression can name."""
    moment, zone = f"timestamp({by.of})", quoted(by.zone or "UTC")
    # such as 2026323, and January 1 is 2026000
    begin = f"{moment}.getFullYear({zone}) * 1000 + {moment}.getDayOfYear({zone}) in ["
    most = (_MAX_WHERE_CHARS - len(begin)) // _NUMBER_CHARS
    for at in range(0, len(days), most):
        numbers = (day.year * 1000 + day.timetuple().tm_yday - 1 for day in days[at : at + most])
        yield f"{begin}{', '.join(map(str, numbers))}]"


def _day(who: str, value: object) -> date:
    try:
        if isinstance(value, date) and not isinstance(value, datetime):
            return value
        if isinstance(value, str):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise ConditionError(f'{who}: dates= has {shown(value)}: write days as "2026-11-20", or dates')
