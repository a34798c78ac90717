"""Paths into an event, and the values there: correlation keys, and members that predicates compare."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from ...events import content
from ...events.attributes import format_timestamp, parse_timestamp
from ...events.errors import EventError
from ...events.event import Event
from ..errors import ConditionError
from .duration import duration_ms, offset_text
from .key import canonical_key
from .zoned import Zoned, zoned

DATA: Final = "data."
_OFFSET = re.compile(r"(.+) ([+-]) ([0-9][0-9a-z]*)", re.DOTALL)
_DAY_MS: Final = 86_400_000


class Path(NamedTuple):
    """A parsed `by` path: where the value is, and the offset added to the date or time there.

    members: the names to follow in JSON data; None for an attribute. zoned: the day, hour, week or month in a
    time zone that is read there; it has its own offset.
    """

    base: str
    offset_ms: int
    members: tuple[str, ...] | None
    zoned: Zoned | None = None

    @property
    def reach(self) -> timedelta:
        """How long before the moment of its key an event may lie; a look-back must start so much earlier."""
        if self.zoned is not None:
            return self.zoned.before + self.zoned.longest
        return timedelta(milliseconds=max(self.offset_ms, 0))


@lru_cache(1000)
def parse_path(path: str) -> Path:
    """`data.day + 1d` is ("data.day", 86_400_000, ("day",)); raises ConditionError for an invalid offset."""
    of_zone = zoned(path)
    if of_zone is not None:
        inner = parse_path(of_zone.of)
        if inner.offset_ms or inner.zoned is not None:
            raise ConditionError(f"{path}: the offset stands after the bracket, {of_zone.name}(...) + 1")
        return Path(inner.base, 0, inner.members, of_zone)
    found = _OFFSET.fullmatch(path)
    base, offset_ms = path, 0
    if found is not None:
        base, offset_ms = found[1], duration_ms(f'by="... {found[2]} {found[3]}"', found[3])
        if found[2] == "-":
            offset_ms = -offset_ms
    members = tuple(base[len(DATA) :].split(".")) if base.startswith(DATA) else None
    return Path(base, offset_ms, members)


def with_offset(path: str, offset: timedelta) -> str:
    """The path to the date or time at `path` plus `offset`; raises ConditionError for more than a year."""
    if not offset:
        return path
    of_zone = zoned(path)
    if of_zone is not None:
        if of_zone.offset:
            raise ConditionError(f"{path} has an offset: give offset= only once")
        return of_zone.shifted(offset).text
    ms = duration_ms("offset", abs(offset))
    return f"{path} {'+' if offset > timedelta(0) else '-'} {offset_text(ms)}"


def key_at(path: str | tuple[str, ...], event: Event) -> str | None:
    """An event's canonical key at a `by` path, or at several; None if it has none (Matcher.key_of)."""
    if isinstance(path, str):
        return _key_at(path, event)
    parts: list[str] = []
    for each in path:
        part = _key_at(each, event)
        if part is None:
            return None
        parts.append(part)
    try:
        return canonical_key(parts)
    except ConditionError:  # together they are longer than a key may be
        return None


def counting_matchers(
    distinct: Mapping[int, str | tuple[str, ...]], numbers: tuple[int, ...], event: Event
) -> tuple[tuple[int, ...], dict[int, str] | None]:
    """Those of the matchers that count the event, and {number: the value that makes it different} (Q5).

    distinct: as Condition.distinct_paths. A matcher in it does not count an event without a value there. The
    values are None if there are none.
    """
    values = {number: key_at(distinct[number], event) for number in numbers if number in distinct}
    found = {number: value for number, value in values.items() if value is not None}
    if len(found) < len(values):
        numbers = tuple(number for number in numbers if number in found or number not in values)
    return numbers, found or None


def value_at(path: str, event: Event) -> object:
    """The value at a `by` path, unchanged: without offset and time zone; None if there is none."""
    return _value_at(parse_path(path), event)


def _value_at(path: Path, event: Event) -> object:
    return event.attributes.get(path.base) if path.members is None else member_at(path.members, event)


def scalar_at(path: tuple[str, ...], event: Event) -> str | int | float | None:
    """The text or number at a path of members in JSON data, as `where` compares it; None if there is none."""
    value = member_at(path, event)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return value


def member_at(path: tuple[str, ...], event: Event) -> object:
    """The value at a path of members in JSON data; None if there is none or the data is not JSON."""
    if not content.is_json(event.datacontenttype):
        return None
    try:
        value = event.payload
    except EventError:
        return None
    for member in path:
        if not isinstance(value, dict):
            return None
        value = value.get(member)
    return value


def _key_at(path: str, event: Event) -> str | None:
    read = parse_path(path)
    value = _value_at(read, event)
    if not isinstance(value, (str, int, float)):  # bool is an int; JSON has no other scalars
        return None
    if read.zoned is not None:
        return read.zoned.key_of(value)
    try:
        text = canonical_key(value)
    except ConditionError:
        return None
    return _moved(text, read.offset_ms) if read.offset_ms else text


def _moved(text: str, offset_ms: int) -> str | None:
    """A canonical date or time plus an offset; None for other texts, and for a date plus part of a day."""
    offset = timedelta(milliseconds=offset_ms)
    try:
        if len(text) == len("2026-11-20"):
            return None if offset_ms % _DAY_MS else (date.fromisoformat(text) + offset).isoformat()
        return canonical_key(format_timestamp(parse_timestamp(text) + offset))
    except (ValueError, OverflowError):
        return None
