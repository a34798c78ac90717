"""Keys in the spelling of their event, and why one cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ...events import content
from ...events.errors import EventError
from ...events.event import Event
from ..nodes.paths import DATA, value_at


def unread_data(paths: Iterable[str], event: Event) -> str | None:
    """Why the event's data cannot be read for a key; None if it can be read."""
    if not event.data or not any(path.startswith(DATA) for path in paths):
        return None
    if not content.is_json(event.datacontenttype):
        return f"data is {event.datacontenttype}, not JSON"
    try:
        _ = event.payload
    except EventError as error:
        return str(error)
    return None


def raw_key(paths: Iterable[str], event: Event) -> str | None:
    """The key in the event's spelling: a text or numeral, or a JSON array for several paths."""
    values = [value_at(path, event) for path in paths]
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    try:
        return json.dumps(
            values[0] if len(values) == 1 else values, ensure_ascii=False, separators=(",", ":")
        )
    except (TypeError, ValueError):
        return None
