"""How `by` would read the wanted key from an event whose key is another form of it: a time, a number."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from ...events.event import Event
from ..nodes.epoch import UNITS, Unit, as_number
from ..nodes.instants import as_date, as_instant, as_written_date, is_local_time
from ..nodes.paths import key_at, parse_path, value_at
from ..nodes.zoned import Name, Zoned
from .formats import json_kind

_MONTH: Final = re.compile(r"[0-9]{4}-[0-9]{2}")
_WEEK: Final = re.compile(r"[0-9]{4}-W[0-9]{2}")
_LETTERS: Final[dict[Name, str]] = {"day": "d", "hour": "h", "week": "w", "month": "mo"}


def other_reading(paths: Sequence[str], event: Event, wanted: str) -> str | None:
    """What to write so that the event has the wanted key, for the first path where it has another one.

    None if its value there is no other form of the wanted key.
    """
    for path, part in zip(paths, _parts(paths, wanted), strict=False):
        if key_at(path, event) != part:
            value = value_at(path, event)
            inside = json_kind(value) if isinstance(value, str) else None
            if inside is not None:  # Debezium's record keys
                base = parse_path(path).base
                return (
                    f"its {base} is a text that itself holds JSON, {inside}, whose members by= cannot reach"
                )
            return _reading(path, value, part)
    return None


def _parts(paths: Sequence[str], wanted: str) -> list[str]:
    if len(paths) == 1:
        return [wanted]
    try:
        parts = json.loads(wanted)
    except (ValueError, RecursionError):
        return []
    return parts if isinstance(parts, list) and all(isinstance(part, str) for part in parts) else []


def _reading(path: str, value: object, wanted: str) -> str | None:
    parsed, name = parse_path(path), _name(wanted)
    if name is None or parsed.offset_ms or not isinstance(value, (str, int, float)):
        return None
    its = f"its {parsed.base}"
    units: tuple[Unit | None, ...] = (None,) if as_number(value) is None else UNITS
    for unit in units:
        if parsed.zoned is not None:
            read = parsed.zoned._replace(unit=unit)
        else:
            read = Zoned(name, parsed.base, "UTC", unit, 0, _LETTERS[name])
        if read == parsed.zoned or read.key_of(value) != wanted:
            continue
        if parsed.zoned is not None:
            return f'{its} is the wanted {name} with unit="{unit}"'
        if unit is None:
            return f'{its} is a time in the wanted {name} in UTC: write by={name}("{parsed.base}", tz=...)'
        write = f'by={name}("{parsed.base}", tz=..., unit="{unit}")'
        return f'{its} is a number that with unit="{unit}" is the wanted {name} in UTC: write {write}'
    moment, day = as_instant(wanted), as_date(value)
    if parsed.zoned is None and moment is not None and day is not None and day == moment.date():
        return f"{its} is a day, and the wanted key a time on it in UTC: give the wait that day as its key"
    return f"{its} is a time without a zone" if isinstance(value, str) and is_local_time(value) else None


def _name(key: str) -> Name | None:
    """The function that gives keys of this form; for a time `hour`."""
    if as_written_date(key) is not None:
        return "day"
    if _WEEK.fullmatch(key):
        return "week"
    if _MONTH.fullmatch(key):
        return "month"
    return None if as_instant(key) is None else "hour"
