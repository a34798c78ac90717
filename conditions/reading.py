"""Reading values of an event by path: correlation keys, and members that predicates compare."""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from ..events import content
from ..events.attributes import format_timestamp, parse_timestamp
from ..events.errors import EventError
from ..events.event import Event
from .duration import duration_ms, duration_text
from .errors import ConditionError
from .key import canonical_key

DATA: Final = "data."
_OFFSET = re.compile(r"(.+) ([+-]) ([0-9][0-9a-z]*)", re.DOTALL)
_DAY_MS: Final = 86_400_000


class Path(NamedTuple):
    """A `by` path, read: where the value is, and what is added to the date or time there."""

    base: str
    offset_ms: int = 0


@lru_cache(1000)
def parse_path(path: str) -> Path:
    """`data.day + 1d` is ("data.day", 86_400_000); ConditionError for an offset that is no duration."""
    found = _OFFSET.fullmatch(path)
    if found is None:
        return Path(path)
    ms = duration_ms(f'by="... {found[2]} {found[3]}"', found[3])
    return Path(found[1], ms if found[2] == "+" else -ms)


def with_offset(path: str, offset: timedelta) -> str:
    """The path whose key is the date or time at `path`, later by `offset`; ConditionError beyond a year."""
    if not offset:
        return path
    ms = duration_ms("offset", abs(offset))
    return f"{path} {'+' if offset > timedelta(0) else '-'} {duration_text(ms)}"


def key_at(path: str | tuple[str, ...], event: Event) -> str | None:
    """The canonical key at a `by` path, or at several, of an event; None if it has none (Matcher.key_of)."""
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
    except ConditionError:  # longer together than a key may be
        return None


def value_at(path: str, event: Event) -> object:
    """The value at a `by` path, as the event spells it, without its offset; None where there is none."""
    path = parse_path(path).base
    if path.startswith(DATA):
        return member_at(tuple(path[len(DATA) :].split(".")), event)
    return event.attributes.get(path)


def scalar_at(path: tuple[str, ...], event: Event) -> str | int | float | None:
    """The text or number at a path of members in JSON data, as `where` compares it; None for none."""
    value = member_at(path, event)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return value


def member_at(path: tuple[str, ...], event: Event) -> object:
    """The value at a path of members in JSON data; None where there is none, or the data are no JSON."""
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
    value = value_at(path, event)
    if not isinstance(value, (str, int, float)):  # bool is an int; JSON has no other scalars
        return None
    try:
        text = canonical_key(value)
    except ConditionError:
        return None
    offset_ms = parse_path(path).offset_ms
    return _moved(text, offset_ms) if offset_ms else text


def _moved(text: str, offset_ms: int) -> str | None:
    """A date or time in canonical text, moved; None for other texts, and for a date by parts of a day."""
    offset = timedelta(milliseconds=offset_ms)
    try:
        if len(text) == len("2026-11-20"):
            return None if offset_ms % _DAY_MS else (date.fromisoformat(text) + offset).isoformat()
        return canonical_key(format_timestamp(parse_timestamp(text) + offset))
    except (ValueError, OverflowError):
        return None
