"""Names the value or name in data that JSON cannot have, and what to give instead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, time, timedelta
from math import isfinite
from typing import Final

from .attributes import kind

_LEVELS: Final = 100  # of which the members are named
_PATH_CHARS: Final = 200


def unwritable(data: object, root: str = "data") -> str | None:
    """Returns a sentence about the first such value or name; None if it is not found.

    It has the path to the value and its type, and never the value. root: begins each path.
    """
    for path, value in _values(data, root, set()):
        if isinstance(value, dict):
            wrong = [name for name in value if not isinstance(name, (str, int, float, bool, type(None)))]
            if wrong:
                return f"{path} has a name that is {kind(wrong[0])}: give texts as names"
            if (pair := _written_alike(value)) is not None:
                one, other = map(kind, pair)
                return (
                    f"{path} has two names that JSON writes as the same text, {one} and {other}: give texts"
                    " as names, each once"
                )
        elif (give := _instead(value)) is not None:
            what = "NaN or Infinity" if isinstance(value, float) else kind(value)
            return f"{path} is {what}: give {give}"
    return None


def repeats_a_name(data: object) -> bool:
    """Returns whether JSON would have a member twice, as of {1: "a", "1": "b"}; data: what JSON can hold.

    JSON has only texts as names, and readers of it disagree on which of two members counts (RFC 8259,
    section 4).
    """
    left = [data]
    for value in left:  # the list grows meanwhile
        if isinstance(value, dict):
            if _written_alike(value) is not None:
                return True
            left.extend(value.values())
        elif isinstance(value, (list, tuple)):
            left.extend(value)
    return False


def _written_alike(names: dict[object, object]) -> tuple[object, object] | None:
    """Returns two names of a dict that JSON writes as one."""
    if all(type(name) is str for name in names):
        return None
    seen: dict[str, object] = {}
    for name in names:
        text = str.__str__(name) if isinstance(name, str) else json.dumps(name)
        if text in seen:
            return seen[text], name
        seen[text] = name
    return None


def _instead(value: object) -> str | None:
    """Returns what to give instead of a value; None for what JSON has."""
    if value is None or isinstance(value, (str, int, list, tuple)):
        return None
    if isinstance(value, float):
        return None if isfinite(value) else "a finite number, None, or a text"
    if isinstance(value, (date, time)):
        return "a text, such as .isoformat() returns"
    if isinstance(value, timedelta):
        return "a number, such as .total_seconds() returns, or a text"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "a text; only bytes that are the whole data are sent, unchanged"
    if isinstance(value, (set, frozenset, range)) or hasattr(value, "__next__"):
        return "a list"
    return "a dict, a list, a text, a number, a bool or None, such as str() returns"


def _values(value: object, path: str, seen: set[int], level: int = 0) -> Iterator[tuple[str, object]]:
    """Yields each value with its path; a list or dict only once, because one may hold itself.

    seen: ids of those that were yielded.
    """
    if isinstance(value, (dict, list, tuple)):
        if id(value) in seen or level == _LEVELS:
            return
        seen.add(id(value))
    yield path, value
    if isinstance(value, dict):
        for name, each in value.items():
            member = f".{name}" if isinstance(name, str) else "[...]"
            yield from _values(each, _longer(path, member), seen, level + 1)
    elif isinstance(value, (list, tuple)):
        for number, each in enumerate(value):
            yield from _values(each, _longer(path, f"[{number}]"), seen, level + 1)


def _longer(path: str, member: str) -> str:
    return path if len(path) + len(member) > _PATH_CHARS else path + member
