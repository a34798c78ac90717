"""Reads moments and days from values of events and keys; moments become instants in UTC."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

# The shortest, 2026324T05Z, has 11 characters.
TIMESTAMP_CHARS: Final = 11
# ISO 8601 with a zone, in the extended or basic form, or both mixed. The fraction is one of the last number:
# hours, minutes or seconds. Allowed too: a space before the zone; in the extended form a space instead of T;
# UTC or GMT by name, also before an offset; after the offset the zone's letters, as Go writes them, and
# RFC 9557's name of the zone and of the calendar.
_TIMESTAMP = re.compile(
    r"(?P<year>[0-9]{4})"
    r"(?:-?(?P<month>[0-9]{2})-?(?P<day>[0-9]{2})|-?[Ww](?P<week>[0-9]{2})-?(?P<weekday>[1-7])"
    r"|-?(?P<ordinal>[0-9]{3}))(?:[Tt]|(?P<space> )(?=[0-9]{2}:))(?P<hour>[0-9]{2})"
    r"(?::?(?P<minute>[0-9]{2})(?::?(?P<second>[0-9]{2}))?)?(?:[.,](?P<fraction>[0-9]+))?"
    r" ?(?:(?i:UTC|GMT)?(?P<sign>[+\-\u2212])(?P<hours>[0-9]{2})(?::?(?P<minutes>[0-9]{2}))?"
    r"(?: (?:[A-Z]{1,5}|[+\-][0-9]{2,4}))?|(?i:Z|UTC?|GMT|Etc/UTC|Etc/GMT|\[(?:Etc/)?(?:UTC|GMT)\]))"
    r"(?:\[!?[A-Za-z0-9_+\-/]{1,64}\])?(?:\[!?[a-z_][a-z0-9_\-]{0,31}=[A-Za-z0-9\-]{1,64}\])*"
)
_MAX_SCALED: Final = 30  # digits in the fraction of an hour or minute
_COMPACT_DATE = re.compile(r"[0-9]{8}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def canonical_timestamp(text: str) -> str | None:
    """A timestamp with a zone as the instant in UTC, 2026-11-20T00:30:00Z, with its whole fraction.

    None for other texts, a leap second, a day the calendar lacks, and years that UTC does not have.
    """
    found = _instant(text)
    if found is None:
        return None
    utc, fraction = found
    fraction = fraction.rstrip("0")
    return utc.replace(tzinfo=None).isoformat() + (f".{fraction}" if fraction else "") + "Z"


def as_instant(value: object) -> datetime | None:
    """The instant, in UTC, of an aware datetime or a text as in `canonical_timestamp`; None for others."""
    if isinstance(value, datetime):
        return None if value.utcoffset() is None else value.astimezone(UTC)
    found = _instant(value) if isinstance(value, str) else None
    if found is None:
        return None
    utc, fraction = found
    return utc + timedelta(microseconds=int(fraction[:6].ljust(6, "0")))


def compact_date(text: str) -> str | None:
    """8 digits that are a day of the calendar, as 2026-11-20; None for others."""
    if _COMPACT_DATE.fullmatch(text) is None:
        return None
    try:
        return date(int(text[:4]), int(text[4:6]), int(text[6:])).isoformat()
    except ValueError:
        return None


def as_date(value: object) -> date | None:
    """The day in a date, 2026-11-20, 20261120 or the number; None for others."""
    if isinstance(value, (datetime, bool)):
        return None
    if isinstance(value, date):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON may write the number as 20261120.0, which is the same key
    text = str(value) if isinstance(value, str) or (isinstance(value, int) and value < 10**8) else ""
    if len(text) == len("20261120"):
        text = compact_date(text) or ""
    return as_written_date(text)


def as_written_date(value: object) -> date | None:
    """The day in the text 2026-11-20, which is no number in any unit; None for others."""
    try:
        return date.fromisoformat(value) if isinstance(value, str) and _DATE.fullmatch(value) else None
    except ValueError:
        return None


def is_local_time(text: str) -> bool:
    """Whether the text is a time without a zone: it would be an instant with one."""
    return _instant(f"{text}Z") is not None


def _instant(text: str) -> tuple[datetime, str] | None:
    """(the instant in whole seconds, in UTC; its fraction); None if the text is not one."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    part = found.groupdict()
    if part["space"] and (part["month"] is None or text[4] != "-"):
        return None  # digits with a blank between them are more often something else
    numbers = {
        name: int(value)
        for name, value in part.items()
        if value and name not in ("fraction", "sign", "space")
    }
    hour, minute, second = (numbers.get(name, 0) for name in ("hour", "minute", "second"))
    fraction = part["fraction"] or ""
    midnight = hour == 24 and not (minute or second or fraction.strip("0"))  # the end of the day
    hours, minutes = numbers.get("hours", 0), numbers.get("minutes", 0)
    if (hour > 23 and not midnight) or minute > 59 or second > 59 or hours > 23 or minutes > 59:
        return None
    offset = timedelta(hours=hours, minutes=minutes)
    if fraction and part["second"] is None:
        if len(fraction) > _MAX_SCALED:
            return None
        unit = 60 if part["minute"] is not None else 3600
        second, rest = divmod(int(fraction) * unit, 10 ** len(fraction))
        fraction = str(rest).zfill(len(fraction))
    try:
        local = datetime.combine(_day(numbers), datetime.min.time(), UTC)
        local += timedelta(hours=hour, minutes=minute, seconds=second)
        return local - (offset if part["sign"] == "+" else -offset), fraction
    except (ValueError, OverflowError):
        return None


def _day(numbers: dict[str, int]) -> date:
    year = numbers["year"]
    if "week" in numbers:
        return date.fromisocalendar(year, numbers["week"], numbers["weekday"])
    if "ordinal" in numbers:
        day = date(year, 1, 1) + timedelta(days=numbers["ordinal"] - 1)
        if day.year != year:
            raise ValueError(f"{year} has no day {numbers['ordinal']}")
        return day
    return date(year, numbers["month"], numbers["day"])
