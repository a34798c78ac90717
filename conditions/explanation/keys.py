"""Keys in the spelling of their event, and how far apart two keys are."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from ...events.event import Event
from ..nodes.paths import value_at

_MONTH: Final = re.compile(r"\d{4}-\d{2}")


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


@lru_cache(1000)
def distance(key: str, wanted: str) -> float:
    """How far apart two keys are, if both are numbers or both name times; else 0, as for equal ones."""
    times = _time_of(key), _time_of(wanted)
    if times[0] is not None and times[1] is not None:
        return abs((times[0] - times[1]).total_seconds())
    try:
        found = abs(float(key) - float(wanted))
    except (ValueError, OverflowError):
        return 0.0
    return 0.0 if math.isnan(found) else found  # a NaN has no order


def _time_of(key: str) -> datetime | None:
    """The beginning of the moment, day, week or month that a canonical key names."""
    text = f"{key}-01" if _MONTH.fullmatch(key) else key
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
