"""The times at which an hour begins in a time zone, which are the keys of hour() there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from .zoned import Zoned

_HOUR_S: Final = 3600
_SINCE, _YEARS, _STEP = datetime(1970, 1, 1, tzinfo=UTC), 100, timedelta(days=30)


def begins_an_hour(time: str, zone: str) -> bool:
    """Whether a canonical time is a key of hour() in the zone."""
    return Zoned("hour", time, zone, None, 0, "h").key_of(time) == time


def begin_together(zone: str, other: str) -> bool:
    """Whether an hour of one zone may begin when one of the other does: not in Kolkata (+05:30) and UTC."""
    return not _begins(zone).isdisjoint(_begins(other))


def beginning(zone: str) -> str:
    """An example of a key of hour() in the zone."""
    return Zoned("hour", "", zone, None, 0, "h").key_of("2026-11-20T05:30:00Z") or ""


@lru_cache(100)
def _begins(zone: str) -> frozenset[float]:
    """The seconds after the hour of UTC at which hours of the zone begin or began."""
    from zoneinfo import ZoneInfo

    known, found, moment = ZoneInfo(zone), set(), _SINCE
    while moment.year < _SINCE.year + _YEARS:
        offset = moment.astimezone(known).utcoffset() or timedelta(0)
        found.add(-offset.total_seconds() % _HOUR_S)
        moment += _STEP
    return frozenset(found)
