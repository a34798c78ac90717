"""Keys that are a day, hour, week or month of a time zone: `day("data.sent_at", tz="Europe/Berlin")`.

In `by` such a key is a path, `day(data.sent_at, Europe/Berlin)`; in a wait's key it holds a value in the
place of the path. Cases: docs/use/conditions.md, K30 to K38.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from ...events.attributes import format_timestamp, shown
from ..errors import ConditionError
from ..filters.filter import is_unicode
from .epoch import UNITS, UNITS_TEXT, Unit, as_number, day_of, likely_unit, moment_of
from .instants import as_date, as_instant, as_written_date, is_local_time

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

Name: TypeAlias = Literal["day", "hour", "week", "month"]

# {function: {letter of an offset: (its length in the function's unit, the largest number)}}
_OFFSETS: Final[dict[str, dict[str, tuple[int, int]]]] = {
    "day": {"d": (1, 366), "w": (7, 52)},
    "hour": {"h": (1, 8784), "d": (1, 366)},
    "week": {"w": (1, 53)},
    "month": {"mo": (1, 12)},
}
_OWN_LETTERS: Final = {"day": "d", "hour": "h", "week": "w", "month": "mo"}
_LONGEST: Final = {  # a clock that is set back, by three hours at the most: Antarctica/Casey
    "day": timedelta(hours=27),
    "hour": timedelta(hours=2),
    "week": timedelta(days=7, hours=3),
    "month": timedelta(days=31, hours=3),
}
_CALL = re.compile(r"(day|hour|week|month)\((.+)\)(?: ([+-]) ([1-9][0-9]{0,3})(mo|[hdw]))?", re.DOTALL)
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]*")
_DAY_IN_UTC = re.compile(  # of Airflow's templates
    r"\{\{[^}]*\b(?:(?:yesterday_|tomorrow_|prev_|next_)?ds(?:_nodash)?|ds_add|ds_format)\b[^}]*\}\}"
)
_SECOND: Final = timedelta(seconds=1)


class Zoned(NamedTuple):
    """A parsed key of a time zone. of: the path or value. offset: in `letter`; 0 without one.

    zone: None if it is not given: the zone of the waiting DAG.
    """

    name: Name
    of: str
    zone: str | None
    unit: Unit | None
    offset: int
    letter: str

    @property
    def text(self) -> str:
        parts = [self.of, *(each for each in (self.zone, self.unit) if each is not None)]
        sign, count = ("-" if self.offset < 0 else "+"), abs(self.offset)
        return f"{self.name}({', '.join(parts)})" + (f" {sign} {count}{self.letter}" if count else "")

    @property
    def before(self) -> timedelta:
        """How long before the beginning of its key's period an event may have happened, at the most."""
        unit = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(days=7)}
        each = unit.get(self.letter, timedelta(days=31))
        return max(self.offset, 0) * each

    @property
    def longest(self) -> timedelta:
        """How long the period of a key may be."""
        return _LONGEST[self.name]

    def shifted(self, offset: timedelta) -> Zoned:
        """The same with an offset in whole days (`hour`: whole hours). Raises ConditionError for another."""
        letters = {"day": ("d",), "hour": ("d", "h"), "week": ("w",)}.get(self.name, ())
        sizes = {"d": timedelta(days=1), "h": timedelta(hours=1), "w": timedelta(days=7)}
        for letter in letters:
            if not offset % sizes[letter]:
                return _checked(self._replace(offset=offset // sizes[letter], letter=letter))
        hint = "whole days" if letters == ("d",) else "whole hours" if "h" in letters else "whole weeks"
        if self.name == "month":
            hint = 'month("...", offset=1), which counts in months, not offset= of the run'
        raise ConditionError(f"offset {offset} does not fit {self.text}: give {hint}")

    def key_of(self, value: object) -> str | None:
        """The canonical key of a value at the path; None if it has none (K33 to K35)."""
        zone = _zone(self.zone or "UTC")
        try:
            day = as_date(value) if self.unit is None else self._day(value) or as_written_date(value)
            if day is not None:
                return None if self.name == "hour" else self._of_day(day)
            instant = self._instant(value)
            if instant is None:
                return None
            if self.name == "hour":
                return _hour(instant, zone, self.offset, self.letter)
            return self._of_day(zone.fromutc(instant.replace(tzinfo=zone)).date())
        except (ValueError, OverflowError):  # outside the years 1 to 9999
            return None

    def why_none(self, value: object) -> str:
        """Why a value that is there has no key, for a sentence that begins with its name."""
        if self.name == "hour" and (self.unit == "d" or as_date(value) or as_written_date(value)):
            return "is a day, which has no hour"
        if as_number(value) is not None:
            likely = likely_unit(value)
            if self.unit is None:
                more = "" if likely is None else f'; with "{likely}" it is in this century'
                return f"is a number, and by= does not say of what: write unit={UNITS_TEXT}{more}"
            more = "" if likely is None else f', and with unit="{likely}" it is in this century'
            return f'is not a time in the years 1 to 9999 with unit="{self.unit}"{more}'
        return why_no_time(value)

    def _instant(self, value: object) -> datetime | None:
        """The moment of a value: ISO text with a zone, or a number in `unit`; in UTC."""
        if self.unit is None or self.unit == "d":
            return as_instant(value)
        number = as_number(value)
        return as_instant(value) if number is None else moment_of(number, self.unit)

    def _day(self, value: object) -> date | None:
        """The day that a number of days is; None for other units and values."""
        number = as_number(value) if self.unit == "d" else None
        return None if number is None else day_of(number)

    def _of_day(self, day: date) -> str:
        if self.name == "month":
            months = day.year * 12 + day.month - 1 + self.offset
            return date(months // 12, months % 12 + 1, 1).isoformat()[:7]
        scale = _OFFSETS[self.name][self.letter][0] if self.name == "day" else 7
        day += timedelta(days=self.offset * scale)
        if self.name == "day":
            return day.isoformat()
        year, week, _ = day.isocalendar()
        return f"{year:04}-W{week:02}"


def day(of: str, tz: str | tzinfo | None = None, *, unit: Unit | None = None, offset: int = 0) -> str:
    """The calendar day of a moment in a time zone as a key: 2026-11-20.

    of: in `by` a path ("data.sent_at"), in a wait's key a value or template ("{{ ts }}").
    tz: "Europe/Berlin". Without it, in an EventSensor: the time zone of its DAG.
    unit: of numbers: "s", "ms", "us", "ns" since 1970, or "d", days since 1970. Text is ISO 8601 with a zone.
    offset: that many days later. They are calendar days, whatever the clock does.

    Raises ConditionError for invalid arguments.
    """
    return _made("day", of, tz, unit, offset)


def hour(of: str, tz: str | tzinfo | None = None, *, unit: Unit | None = None, offset: int = 0) -> str:
    """The hour of a moment in a time zone as a key: its beginning in UTC, 2026-11-20T05:00:00Z.

    Arguments as for `day`; offset: that many hours later.
    """
    return _made("hour", of, tz, unit, offset)


def week(of: str, tz: str | tzinfo | None = None, *, unit: Unit | None = None, offset: int = 0) -> str:
    """The ISO week, from Monday on, of a moment in a time zone as a key: 2026-W47.

    Arguments as for `day`; offset: that many weeks later.
    """
    return _made("week", of, tz, unit, offset)


def month(of: str, tz: str | tzinfo | None = None, *, unit: Unit | None = None, offset: int = 0) -> str:
    """The month of a moment in a time zone as a key: 2026-11.

    Arguments as for `day`; offset: that many months later.
    """
    return _made("month", of, tz, unit, offset)


@lru_cache(1000)
def zoned(text: str) -> Zoned | None:
    """The key of a time zone in a text; None if it is none. Raises ConditionError for an invalid one."""
    found = _CALL.fullmatch(text)
    if found is None:
        return None
    name, inner, sign, count, letter = found.groups()
    head, _, last = inner.rpartition(", ")
    unit = last if head and last in UNITS else None
    if unit is not None:
        inner = head
        head, _, last = inner.rpartition(", ")
    of, zone = (head, last) if head and _ZONE_NAME.fullmatch(last) else (inner, None)
    offset = 0 if count is None else int(count) * (-1 if sign == "-" else 1)
    return _checked(Zoned(name, of, zone, unit, offset, letter or _OWN_LETTERS[name]))  # type: ignore[arg-type]


def why_no_time(value: object) -> str:
    """Why a value is not read as a time, for a sentence that begins with its name."""
    if isinstance(value, str) and is_local_time(value):
        return "is a time without a zone"
    if as_instant(value) is not None:
        return "is outside the years 1 to 9999"
    return "is neither a date nor a time"


def is_zoned(text: str) -> bool:
    """Whether a text is the key of a time zone, valid or not."""
    return _CALL.fullmatch(text) is not None


def key_of_text(text: str, zone: str | None = None) -> str:
    """The canonical key of a text such as `day(2026-11-20T05:00:00Z, Europe/Berlin)`; other texts unchanged.

    zone: where the text names none. Raises ConditionError if the value is no time with a zone.
    """
    found = zoned(str.__str__(text))
    if found is None:
        return str.__str__(text)
    found = found if found.zone is not None else found._replace(zone=zone)
    if found.zone is None:
        raise ConditionError(f'key {text} names no time zone: give tz=, as in {found.name}(..., tz="UTC")')
    date_of = as_date if found.unit is None else as_written_date  # with a unit, 20261120 is a number
    if found.zone != "UTC" and date_of(found.of) is not None:
        raise ConditionError(
            f"key {text}: a date has no time, so its {found.name} in {found.zone} is not known. Give the"
            " moment, as {{ ts }} does, and not {{ ds }}, which is the day in UTC; or the date itself as key"
        )
    key = found.key_of(found.of)
    if key is None:
        numbers = "" if as_number(found.of) is None else f"numbers need unit={UNITS_TEXT}; "
        raise ConditionError(
            f"key {text}: {shown(found.of)} is not a time with a zone; {numbers}write 2026-11-20T05:00:00Z"
        )
    return key


def zoned_key(key: object, zone: str | None) -> Any:
    """The key of a wait with its days, hours, weeks and months computed; zone: of those that name none."""
    if isinstance(key, (list, tuple)):
        return [zoned_key(each, zone) for each in key]
    return key_of_text(key, zone) if isinstance(key, str) else key


def check_zoned_key(key: object) -> None:
    """Raises ConditionError for a key of a DAG file whose day, hour, week or month can never be computed."""
    for text in key if isinstance(key, (list, tuple)) else (key,):
        found = zoned(str.__str__(text)) if isinstance(text, str) else None
        if found is not None and found.zone != "UTC" and _DAY_IN_UTC.search(found.of):
            raise ConditionError(
                f"the key {text} is given a day in UTC, whose {found.name} in a time zone is not known: give"
                f' the moment, {found.name}("{{{{ ts }}}}", tz=...)'
            )


def key_offset(key: object) -> timedelta:
    """How long before its moment the period of a wait's key lies; a look-back must start so much earlier."""
    if isinstance(key, (list, tuple)):
        return max((key_offset(each) for each in key), default=timedelta(0))
    found = zoned(str.__str__(key)) if isinstance(key, str) else None
    return timedelta(0) if found is None else found._replace(offset=-found.offset).before


def _made(name: Name, of: object, tz: object, unit: object, offset: object) -> str:
    if not isinstance(of, str) or not of or "\0" in of or not is_unicode(of):
        raise ConditionError(f'{name}() is given {shown(of)}: give a path, or a value such as "{{{{ ts }}}}"')
    if tz is not None and not isinstance(tz, str):
        tz = getattr(tz, "key", None) or getattr(tz, "name", None) or tz  # ZoneInfo; pendulum's zones
    if tz is not None and not isinstance(tz, str):
        raise ConditionError(f'{name}(tz={shown(tz)}): give a name such as "Europe/Berlin"')
    if unit is not None and unit not in UNITS:
        raise ConditionError(f"{name}(unit={shown(unit)}): give one of {', '.join(UNITS)}")
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise ConditionError(f"{name}(offset={shown(offset)}): give a whole number of {name}s")
    given = Zoned(name, str.__str__(of), tz, unit, offset, _OWN_LETTERS[name])
    try:
        made = _checked(given)
    except ConditionError as error:
        raise ConditionError(f"{name}(): {error}") from None
    if zoned(made.text) != made:
        raise ConditionError(f"{name}({shown(of)}): what follows ', ' in it would be read as tz= or unit=")
    return made.text


def _checked(made: Zoned) -> Zoned:
    letters = _OFFSETS[made.name]
    if made.offset and made.letter not in letters:
        raise ConditionError(f"{made.text}: an offset of {made.name}() is in {' or '.join(letters)}")
    if abs(made.offset) > letters.get(made.letter, (1, 0))[1]:
        raise ConditionError(f"{made.text}: an offset of at most {letters[made.letter][1]}{made.letter}")
    if made.zone is not None:
        _zone(made.zone)
    return made


@lru_cache(1000)
def _zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo

    from .calendar import check_zone

    check_zone(name)
    return ZoneInfo(name)


def _hour(instant: datetime, zone: ZoneInfo, offset: int, letter: str) -> str:
    if letter == "h":
        instant += timedelta(hours=offset)
    local = zone.fromutc(instant.replace(tzinfo=zone))
    if letter == "d" and offset:  # the same time of the clock on another day; a skipped one is later (R2)
        moved = (local.replace(tzinfo=None, fold=0) + timedelta(days=offset)).replace(tzinfo=zone)
        instant = moved.astimezone(UTC)
        local = zone.fromutc(instant.replace(tzinfo=zone))
    since = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
    return format_timestamp(_same_offset_from(instant - since, instant, zone))


def _same_offset_from(start: datetime, end: datetime, zone: ZoneInfo) -> datetime:
    """The first moment, from `start` on, from which the clock is not set until `end`: at most an hour later.

    A clock may be set in the middle of an hour, which begins there anew: Lord Howe, Chatham.
    """
    offset = zone.fromutc(end.replace(tzinfo=zone)).utcoffset()
    if zone.fromutc(start.replace(tzinfo=zone)).utcoffset() == offset:
        return start
    before, after = 0, -((start - end) // _SECOND)  # in seconds; clocks are set at whole ones
    while after - before > 1:
        middle = (before + after) // 2
        moment = start + middle * _SECOND
        if zone.fromutc(moment.replace(tzinfo=zone)).utcoffset() == offset:
            after = middle
        else:
            before = middle
    return start + after * _SECOND
