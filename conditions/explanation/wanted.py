"""Which event would meet a matcher, as far as the matcher says: for a person who sends the event by hand."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ...events.attributes import CORE
from ..nodes.condition import Condition
from ..nodes.matcher import Matcher
from ..nodes.paths import parse_path
from .wording import clean

_MOST_CHARS: Final = 1024
_ATTRIBUTES: Final = ("type", "source", "subject")
# The sender decides these, or Kafka's record does: no form has a field for them.
_NOT_SENT: Final = CORE - {*_ATTRIBUTES}


class WantedEvent(NamedTuple):
    """The attributes and members that a matcher names; None, or left out, where it names none.

    data: a JSON object with the members from which the key is read. `where` and filters other than exact
    values are not in it: the event may have to meet more.
    """

    label: str
    type: str | None = None
    source: str | None = None
    subject: str | None = None
    data: dict[str, Any] | None = None
    extensions: Mapping[str, str] = MappingProxyType({})

    def to_json(self) -> dict[str, object]:
        return {**self._asdict(), "extensions": dict(self.extensions)}


def wanted_events(
    condition: Condition, labels: Collection[str], key: str | None = None
) -> tuple[WantedEvent, ...]:
    """For each of these labels of the condition, in its order, the event that would meet it.

    key: in canonical form; None or "" if the wait has none.
    """
    pairs = zip(condition.labels, condition.matchers, strict=True)
    return tuple(_wanted(label, matcher, key or "") for label, matcher in pairs if label in labels)


def _wanted(label: str, matcher: Matcher, key: str) -> WantedEvent:
    attributes = dict(matcher.exact)
    data: dict[str, Any] = {}
    for path, value in _values(matcher, key):
        read = parse_path(path)
        if read.zoned is not None or read.offset_ms:
            continue  # many times have this day or hour, and the one that is meant is not known
        if read.members is None:
            attributes.setdefault(read.base, value)
        else:
            _put(data, read.members, value)
    known = {name: clean(value, _MOST_CHARS) for name, value in attributes.items()}
    return WantedEvent(
        label,
        known.get("type"),
        known.get("source"),
        known.get("subject"),
        data=data or None,
        extensions={
            name: value for name, value in known.items() if name not in _ATTRIBUTES and name not in _NOT_SENT
        },
    )


def _values(matcher: Matcher, key: str) -> list[tuple[str, str]]:
    """(path, value) of each part of the key."""
    if matcher.by is None or not key:
        return []
    if isinstance(matcher.by, str):
        return [(matcher.by, key)]
    try:
        parts = json.loads(key)
    except (ValueError, RecursionError):
        return []
    if not isinstance(parts, list) or len(parts) != len(matcher.by):
        return []
    return [(path, part) for path, part in zip(matcher.by, parts, strict=True) if isinstance(part, str)]


def _put(data: dict[str, Any], members: tuple[str, ...], value: str) -> None:
    """Set a member of nested objects; nothing if another path has put a value on the way."""
    for member in members[:-1]:
        inner = data.setdefault(member, {})
        if not isinstance(inner, dict):
            return
        data = inner
    data.setdefault(members[-1], value)
