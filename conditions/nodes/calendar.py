"""Periods of a calendar: from one time of a cron expression to the next, in a time zone.

The cron library searches in naive wall-clock time. This module decides which instant such a time stands for,
by the zone's offsets before and after a clock change (docs/use/conditions.md, case R2):

- R2.1: A time that the clock shows once is that instant.
- R2.2: A time that the clock skips is the first instant after the gap. Several in one gap become one.
- R2.3: A time that the clock shows twice is the first of the two instants.
- R2.4: An expression that matches every hour runs by real time: never at a skipped time, and at both instants
  of a repeated one. One whose minute or hour field begins with `*` also runs at both instants.

Other cron implementations differ (docs/decide/adr/0010): they repeat fixed times in autumn, take the second
of two instants, or find different periods when they search backward and forward.
"""

from __future__ import annotations

import re
import threading
import zoneinfo
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from ...events.attributes import shown
from ..errors import ConditionError
from . import cron

# Resets occur in the years 1900 to 2199. The first and the last period reach to these bounds; a sum of one
# and a time fits a signed 64-bit number.
BEGINNING: Final = -(2**62)
END: Final = 2**62
MAX_ZONE_CHARS: Final = 64
# Of one calendar: more than the events that a state is likely to hold. A matcher with keep="all" may hold a
# thousand, each in another period, and one evaluation asks for the periods of all. If fewer were remembered,
# each would be gone again before it is asked for, and a search takes a millisecond. A period takes 56 bytes.
REMEMBERED_PERIODS: Final = 4096
_REMEMBERED_CALENDARS = 256

_UNIX_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # naive times here are UTC or wall-clock times
_FIRST_YEAR = datetime(1900, 1, 1)  # noqa: DTZ001
_PAST_LAST_YEAR = datetime(2200, 1, 1)  # noqa: DTZ001
_MICROSECOND = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_FIRST = (_FIRST_YEAR - _UNIX_EPOCH) // _MICROSECOND
_LAST = (_PAST_LAST_YEAR - _UNIX_EPOCH) // _MICROSECOND - 1

_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
# An offset of whole hours, written as a zone's name.
_OFFSET = re.compile(r"(?:UTC|GMT)? ?([+-])0?([0-9]|1[0-4])(?::?00)?", re.IGNORECASE | re.ASCII)
# Files in the folder of zones that are not IANA zones; their content differs between machines.
_NO_ZONES = frozenset({"local", "localtime", "posixrules", "Factory"})
_NO_ZONE_FOLDERS = ("posix/", "right/")


@dataclass(frozen=True)
class Periods:
    """The periods of a cron expression in a time zone. Equal by cron and timezone, thread-safe, picklable.

    cron: five fields, or @hourly, @daily, @weekly, @monthly, @yearly; stored in one spelling (`cron.Cron`).
    timezone: a name in the IANA database. Raises ConditionError for an invalid expression, an expression that
    never occurs, or an unknown zone.
    """

    cron: str
    timezone: str
    _calendar: _Calendar = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        expression = cron.parse(self.cron)
        check_zone(self.timezone)
        object.__setattr__(self, "cron", expression.text)
        object.__setattr__(self, "_calendar", _calendar(expression, self.timezone))

    def of(self, micros: int) -> tuple[int, int]:
        """[start, end) of the period that holds an instant; all in microseconds since the epoch.

        Start is the last time of the expression at or before the instant, end the next one after it. The
        first and last period of the years 1900 to 2199 reach to BEGINNING and END.
        """
        return self._calendar.period(micros)

    def __reduce__(self) -> tuple[type[Periods], tuple[str, str]]:
        return Periods, (self.cron, self.timezone)


class _Change(NamedTuple):
    """A clock change. The wall times from `low` up to `past` are skipped (forward) or repeated (back)."""

    at: datetime  # UTC, naive
    before: timedelta
    after: timedelta

    @property
    def skips(self) -> bool:
        return self.after > self.before

    @property
    def low(self) -> datetime:
        return self.at + min(self.before, self.after)

    @property
    def past(self) -> datetime:
        return self.at + max(self.before, self.after)


class _Calendar:
    """The search behind `Periods`, with a cache of the last periods found."""

    def __init__(self, expression: cron.Cron, zone: zoneinfo.ZoneInfo) -> None:
        from croniter import croniter  # takes 50 ms, so only conditions with a calendar import it

        self._every_hour = expression.every_hour
        self._repeats = expression.repeats
        self._zone = zone
        self._search: Any = croniter(expression.text, _UNIX_EPOCH, ret_type=datetime)
        self._lock = threading.Lock()  # a croniter object keeps its position
        # (ascending starts, their ends), replaced as a whole, so that readers need no lock. The starts are a
        # list, because a search in an array takes twice as long. `_order`: the starts, oldest first.
        self._recent: tuple[list[int], array[int]] = ([], array("q"))
        self._order = array("q")

    def period(self, micros: int) -> tuple[int, int]:
        starts, ends = self._recent
        index = bisect_right(starts, micros) - 1
        if index >= 0 and micros < ends[index]:
            return starts[index], ends[index]
        with self._lock:
            found = self._find(min(max(micros, _FIRST), _LAST))
            self._remember(*found)
        return found

    def _remember(self, start: int, end: int) -> None:
        starts, ends = self._recent[0][:], self._recent[1][:]
        index = bisect_left(starts, start)
        if index < len(starts) and starts[index] == start:
            return  # another thread was here first
        starts.insert(index, start)
        ends.insert(index, end)
        self._order.append(start)
        if len(self._order) > REMEMBERED_PERIODS:
            oldest = bisect_left(starts, self._order.pop(0))
            del starts[oldest], ends[oldest]
        self._recent = (starts, ends)

    def _find(self, micros: int) -> tuple[int, int]:
        now = _UNIX_EPOCH + micros * _MICROSECOND
        local = self._zone.fromutc(now.replace(tzinfo=self._zone))
        wall = local.replace(tzinfo=None, fold=0)
        # overlap: the change that repeats this wall time, or None. again: that change, if it has happened.
        overlap = self._change(wall)
        again = overlap if local.fold else None
        start = (self._start(now, wall, again) - _UNIX_EPOCH) // _MICROSECOND
        end = (self._end(now, wall, overlap, again) - _UNIX_EPOCH) // _MICROSECOND
        return (start if start > _FIRST else BEGINNING, end if end <= _LAST else END)

    def _start(self, now: datetime, wall: datetime, again: _Change | None) -> datetime:
        """The last instant of the expression at or before `now`."""
        time = self._last_before(wall + _MICROSECOND)
        if again is not None and (not self._repeats or time < again.low):
            time = self._last_before(again.past)  # later than `wall`, but the clock has already shown it
        while True:
            change = self._change(time)
            if change is None:
                return time - self._offset(time)
            if not change.skips:
                second = time - change.after
                return second if self._repeats and second <= now else time - change.before
            if not self._every_hour:
                return change.at
            time = self._last_before(change.low)

    def _end(self, now: datetime, wall: datetime, overlap: _Change | None, again: _Change | None) -> datetime:
        """The first instant of the expression after `now`."""
        time = self._first_from(wall + _MICROSECOND)
        if again is not None and not self._repeats:
            time = self._first_from(again.past)
        elif overlap is not None and again is None and self._repeats and time >= overlap.past:
            repeated = self._first_from(overlap.low)
            if repeated < overlap.past:
                return repeated - overlap.after
        while True:
            change = self._change(time)
            if change is None:
                return time - self._offset(time)
            if not change.skips:
                first = time - change.before
                return time - change.after if self._repeats and first <= now else first
            if not self._every_hour:
                return change.at
            time = self._first_from(change.past)

    def _last_before(self, wall: datetime) -> datetime:
        """The last wall time of the expression before `wall`."""
        found: datetime = self._search.get_prev(start_time=_up_to_minute(wall))
        return found

    def _first_from(self, wall: datetime) -> datetime:
        """The first wall time of the expression at or after `wall`."""
        found: datetime = self._search.get_next(start_time=_up_to_minute(wall) - _MINUTE)
        return found

    def _offset(self, wall: datetime) -> timedelta:
        offset = self._zone.utcoffset(wall)
        assert offset is not None  # noqa: S101  # a zone of the database always has one
        return offset

    def _change(self, wall: datetime) -> _Change | None:
        """The clock change that skips or repeats this wall time; None if there is none."""
        # PEP 495: fold 0 uses the offset before a change, fold 1 the one after it
        before, after = self._offset(wall), self._offset(wall.replace(fold=1))
        if before == after:
            return None
        second = wall.replace(microsecond=0)  # offsets and changes are whole seconds
        low, high = second - max(before, after), second - min(before, after)
        while high - low > _SECOND:  # the change is in (low, high]
            middle = low + (high - low) // _SECOND // 2 * _SECOND
            if self._zone.fromutc(middle.replace(tzinfo=self._zone)).utcoffset() == after:
                high = middle
            else:
                low = middle
        return _Change(high, before, after)


@lru_cache(_REMEMBERED_CALENDARS)
def _calendar(expression: cron.Cron, timezone: str) -> _Calendar:
    """One object for all conditions with this calendar: a hundred thousand waits may share a few."""
    return _Calendar(expression, zoneinfo.ZoneInfo(timezone))


def _up_to_minute(wall: datetime) -> datetime:
    whole = wall.replace(second=0, microsecond=0)
    return whole if whole == wall else whole + _MINUTE


def check_zone(name: object) -> None:
    """Raises ConditionError unless this is the name of a zone in the IANA database."""
    if not isinstance(name, str):
        raise ConditionError(f'timezone is a {type(name).__name__}: write a name such as "Europe/London"')
    if len(name) > MAX_ZONE_CHARS:
        raise ConditionError(f"timezone has {len(name)} characters: at most {MAX_ZONE_CHARS}")
    if name in _NO_ZONES:
        raise ConditionError(
            f'timezone {shown(name)} differs between machines: write a name such as "Europe/London", or "UTC"'
        )
    if _ZONE_NAME.fullmatch(name) and not name.startswith(_NO_ZONE_FOLDERS):
        try:
            zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass  # an unknown name, a folder of zones, or a file that is not a zone
        else:
            return
    raise ConditionError(f"timezone {shown(name)} is not in the IANA database{_near(name)}")


def _near(name: str) -> str:
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        return _for_offset(offset[1], int(offset[2]))
    import difflib  # for an error only

    known = _known_zones()
    if not known:
        return ", and this machine has no copy of it: install the package tzdata"
    near = difflib.get_close_matches(name.lower().replace(" ", "_"), known, n=3)
    hint = " or ".join(f'"{known[match]}"' for match in near)
    return f": did you mean {hint}?" if near else ': write a name such as "Europe/London"'


def _for_offset(sign: str, hours: int) -> str:
    """What to write for an offset. Suggesting a name that looks like it would turn its sign."""
    if not hours:
        return ': write "UTC"'
    zone = f"Etc/GMT{'-' if sign == '+' else '+'}{hours}"
    same = f'; {sign}{hours} h all year is "{zone}", whose sign is reversed'
    return f': name a place, as in "Europe/London"{same if zone.lower() in _known_zones() else ""}'


@cache
def _known_zones() -> dict[str, str]:
    """{name in lower case: name}; reads the folder of zones, which takes 20 ms."""
    return {zone.lower(): zone for zone in zoneinfo.available_timezones() - _NO_ZONES}
