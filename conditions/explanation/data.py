"""Why the data of an event cannot be read for a key or a predicate: never their content."""

from __future__ import annotations

from collections.abc import Iterable

from ...events import content
from ...events.errors import EventError
from ...events.event import Event
from ..nodes.paths import DATA, key_at, parse_path, value_at
from .formats import json_kind, kind_of, looks_like


def unreadable(event: Event) -> str | None:
    """Why the event's data cannot be read as JSON, and what they look like; None if they can, or are null."""
    data, stated = event.data, event.datacontenttype
    if data is None:
        return "it has no data (a null value)"
    if not content.is_json(stated):
        looks = looks_like(data)
        return f"its data is {stated}, not JSON" + (f": it looks like {looks}" if looks else "")
    if not data:
        return "its data is empty (0 bytes)"
    try:
        content.parse_json(data)  # without a type `payload` gives bytes instead of the error
    except EventError as error:
        looks = looks_like(data)
        return f"its data is not valid JSON: it looks like {looks}" if looks else f"its {error}"
    return None


def no_key(paths: Iterable[str], event: Event) -> str | None:
    """Why the first of these paths that gives no key gives none; None if the member is just missing."""
    for path in paths:
        if key_at(path, event) is not None:
            continue
        parsed = parse_path(path)
        base, members = parsed.base, parsed.members
        if members is not None:
            reason = unreadable(event) or _at(members, event)
        elif base not in event.attributes:
            hint = f', but its data has a member "{base}": by="{DATA}{base}"' if _has(event, base) else ""
            reason = f"it has no attribute {base}{hint}"
        else:
            reason = None
        if reason is None and (parsed.offset_ms or parsed.zoned) and value_at(path, event) is not None:
            return f"its {base} is no date or time"
        return reason
    return None


def _at(members: tuple[str, ...], event: Event) -> str | None:
    """Why JSON data have no usable value at these members; None if they have one."""
    value: object = event.payload
    where = "its data"
    for number, member in enumerate(members):
        if not isinstance(value, dict):
            return f"{where} is {_not_an_object(value)}"
        if member not in value:
            return _absent(member, value, where, members[:number], event)
        value = value[member]
        where = f"its {DATA}{'.'.join(members[: number + 1])}"
    if isinstance(value, (dict, list)) or value is None:
        return f"{where} is {kind_of(value)}"
    if value == "":
        return f"{where} is empty"
    return None


def _absent(
    member: str, value: dict[str, object], where: str, above: tuple[str, ...], event: Event
) -> str | None:
    """Hints where a value may be instead; they name only what the condition names."""
    alike = next((name for name in value if name.strip().casefold() == member.strip().casefold()), None)
    if alike is not None:
        return f'{where} has no member "{member}", but "{alike}"'
    for envelope in ("payload", "after", "data"):  # of Kafka Connect, Debezium, and data that wrap data
        inner = value.get(envelope)
        if isinstance(inner, dict) and member in inner:
            path = ".".join((*above, envelope, member))
            return f'{where} is an envelope: the member is at "{DATA}{path}"'
    if not above and member in event.attributes:
        return f'{where} has no member "{member}", but the event has an attribute of this name: by="{member}"'
    return None


def _has(event: Event, name: str) -> bool:
    try:
        payload = event.payload if content.is_json(event.datacontenttype) else None
    except EventError:
        return False
    return isinstance(payload, dict) and name in payload


def not_an_object(event: Event) -> str | None:
    """As `unreadable`, and also if the data are JSON, but no object or list: what they are instead."""
    reason = unreadable(event)
    if reason is not None:
        return reason
    payload = event.payload
    if isinstance(payload, (dict, list)):
        return None
    return f"its data is {_not_an_object(payload)}"


def _not_an_object(value: object) -> str:
    inside = json_kind(value) if isinstance(value, str) else None
    if inside is not None:
        return f"a text that itself holds JSON, {inside}: it was encoded twice"
    return f"{kind_of(value)}, not an object"
