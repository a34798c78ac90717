"""The key of an event in the spelling of the event, for showing it; it is compared in its canonical form."""

from __future__ import annotations

from collections.abc import Iterable

from ...events.event import Event
from .condition import Condition
from .key import MAX_KEY_BYTES, written_key
from .paths import key_at, parse_path, value_at


def written_by(condition: Condition, numbers: Iterable[int], key: str, event: Event) -> str | None:
    """The canonical `key` as the event writes it for one of these matchers; None if that is no different.

    Also None for a key that is computed, with an offset or in a time zone, and without the event's data.
    """
    if not has_spellings(key):
        return None
    for number in numbers:
        by = condition.matchers[number].by
        if by is not None and key_at(by, event) == key:
            text = _written_at(by, event)
            return None if text == key or len(text) > MAX_KEY_BYTES else text
    return None


def has_spellings(key: str) -> bool:
    """Whether the canonical key may have other spellings: a date or time, or a list, does."""
    return key[4:5] == "-" or key[:1] == "["


def _written_at(by: str | tuple[str, ...], event: Event) -> str:
    if isinstance(by, str):
        return written_key(_part(by, event))
    return written_key([_part(path, event) for path in by])


def _part(path: str, event: Event) -> object:
    read = parse_path(path)
    computed = read.offset_ms != 0 or read.zoned is not None
    return key_at(path, event) if computed else value_at(path, event)
