"""Periods of the few cron expressions that the generators use, found day by day (R1, R2)."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MINUTE_US = 60_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# {cron: minutes between its times in real time}: expressions that run every hour or minute (R2)
REGULAR = {"0 * * * *": 60, "*/20 * * * *": 20}
# {cron: (hour, minute, day of the week with Monday as 0, or None)}
DAILY = {"0 0 * * *": (0, 0, None), "30 1 * * *": (1, 30, None), "15 6 * * 1": (6, 15, 0)}


def period_of(cron: str, zone: str, micros: int) -> tuple[int, int]:
    """[start, end) of the period that holds an instant, in microseconds since the epoch."""
    if cron in REGULAR:
        # the zones in use are whole hours from UTC, so that a regular expression is regular in UTC too
        length = REGULAR[cron] * MINUTE_US
        start = micros // length * length
        return start, start + length
    hour, minute, weekday = DAILY[cron]
    day = (_EPOCH + timedelta(microseconds=micros)).date() - timedelta(days=10)
    times = []
    for _ in range(22):
        if weekday is None or day.weekday() == weekday:
            times.append(_instant(day, hour, minute, ZoneInfo(zone)))
        day += timedelta(days=1)
    return max(t for t in times if t <= micros), min(t for t in times if t > micros)


@lru_cache(maxsize=10_000)
def _instant(day: date, hour: int, minute: int, zone: ZoneInfo) -> int:
    """The first instant at which the local clock shows this time, or the end of the gap that skips it."""
    wanted = datetime.combine(day, time(hour, minute))
    start = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(hours=15)
    for minutes in range(40 * 60):
        local = (start + timedelta(minutes=minutes)).astimezone(zone).replace(tzinfo=None)
        if local >= wanted:
            return (start - _EPOCH) // timedelta(microseconds=1) + minutes * MINUTE_US
    raise AssertionError("no such time within 40 hours")
