"""Keys in the spelling of their event."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ...events.event import Event
from ..nodes.paths import value_at


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
