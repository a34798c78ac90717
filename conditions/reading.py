"""Reading values of an event by path: correlation keys, and members that predicates compare."""

from __future__ import annotations

from typing import Final

from ..events import content
from ..events.errors import EventError
from ..events.event import Event
from .errors import ConditionError
from .key import canonical_key

DATA: Final = "data."


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
    """The value at a `by` path, as the event spells it; None where there is none."""
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
        return canonical_key(value)
    except ConditionError:
        return None
